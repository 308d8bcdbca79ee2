// The README's support matrix is what space/ says: this test writes it, and
// fails with the right text when the README has another.
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/space/space.h"
#include "tests/kernels/format_list.h"

namespace hone {
namespace {

// Whatever is legal on these is proved on the emulator, by random configs of
// every format (tests/kernels/device).
constexpr int64_t kArchitectures[] = {75, 80, 86, 89, 90, 120};
constexpr absl::string_view kBegin = "<!-- support matrix: begin -->\n";
constexpr absl::string_view kEnd = "<!-- support matrix: end -->\n";

struct Family {
  std::string name;
  std::vector<LayerConfig> layers;
};

// Layers of type A with these types of B, channel and group scales.
std::vector<LayerConfig> WithTypes(DataType a, const std::vector<DataType>& bs,
                                   ZeroPoint zero) {
  const DataType scale = a.bits() == 16 ? a : kFloat16;
  std::vector<LayerConfig> layers;
  for (const DataType b : bs) {
    for (const Scaling& scaling :
         {Scaling{ScaleGranularity::kChannel, scale},
          Scaling{ScaleGranularity::kGroup, scale, 64}}) {
      layers.push_back(MakeLayer(1024, 1024, a, b, scaling, zero));
    }
  }
  return layers;
}

// "int1 to int8": the integers of a kind that A takes.
Family Integers(DataType a, DataType::Kind kind, ZeroPoint zero,
                absl::string_view suffix) {
  std::vector<DataType> types;
  for (const DataType b : WeightTypes(a)) {
    if (b.kind() != kind) continue;
    if (CheckWeightFormat(
            MakeLayer(64, 64, a, b, {ScaleGranularity::kNone, kFloat16}, zero))
            .ok()) {
      types.push_back(b);
    }
  }
  if (types.empty()) return {};
  return {absl::StrCat(types.front().ToString(), " to ",
                       types.back().ToString(), suffix),
          WithTypes(a, types, zero)};
}

std::vector<Family> Families(DataType a) {
  using Kind = DataType::Kind;
  std::vector<Family> families = {
      Integers(a, Kind::kInt, ZeroPoint::kNone, ""),
      Integers(a, Kind::kUint, ZeroPoint::kNone, ""),
      Integers(a, Kind::kUint, ZeroPoint::kInteger, ", integer zero points"),
      Integers(a, Kind::kUint, ZeroPoint::kFloat, ", float zero points"),
  };
  std::vector<DataType> floats;
  for (const DataType b : WeightTypes(a)) {
    if (b.is_float()) floats.push_back(b);
  }
  const bool one = floats.size() == 1;
  families.push_back({one ? floats[0].ToString()
                          : "every float eXmY up to 8 bits that fits A, X = 0 "
                            "included",
                      WithTypes(a, floats, ZeroPoint::kNone)});
  const DataType narrow = a == kFloat4e2m1 ? DataType::Int(3) : kInt4;
  const int least = 256 / a.bits() / (a.bits() == 16 ? 1 : 2);
  Family scales = {
      absl::StrCat(narrow.ToString(), " with every scale: channel, group ",
                   least, " to 256, tensor, group and tensor, float32 block"),
      {}};
  for (const Scaling& scaling : Scalings()) {
    const LayerConfig layer = MakeLayer(1024, 1024, a, narrow, scaling);
    if (layer.b_group == 0 || layer.b_group >= least) {
      scales.layers.push_back(layer);
    }
  }
  families.push_back(scales);
  if (a.bits() < 16) {
    Family inputs = {"scales of A: tensor, token, group", {}};
    for (size_t turn = 0; turn < 16; ++turn) {
      inputs.layers.push_back(MakeLayer(
          1024, 1024, a, narrow, {ScaleGranularity::kChannel, kFloat16}));
      ScaleInput(inputs.layers.back(), turn);
    }
    families.push_back(inputs);
  }
  for (const char* preset : {"mxfp4", "mxfp8", "nvfp4"}) {
    LayerConfig layer =
        MakeLayer(1024, 1024, a, kInt4, {ScaleGranularity::kChannel, kFloat16});
    EXPECT_TRUE(ApplyPreset(preset, layer).ok());
    if (layer.b.bits() <= a.bits() && CheckWeightFormat(layer).ok()) {
      families.push_back({preset, {layer}});
    }
    layer.b_scale_window = true;
    if (layer.b.bits() <= a.bits() && CheckWeightFormat(layer).ok()) {
      families.push_back(
          {absl::StrCat(preset, " in a window of scales"), {layer}});
    }
  }
  std::erase_if(families, [](const Family& f) { return f.layers.empty(); });
  return families;
}

// Whether hone_gpu_formats_test has passed on an H200 with as many formats as
// there are for it today: its result is kept with the measurements.
bool AllGatedOnAnH200() {
  std::string path = HONE_README;
  path.resize(path.rfind('/') + 1);
  path += "tests/bench/results/h200/2026-12-02-checks.json";
  std::ifstream in(path, std::ios::binary);
  const std::string checks((std::istreambuf_iterator<char>(in)), {});
  const DeviceSpec h200 = *ModelledDevice("h200");
  int64_t formats = 0;
  for (const LayerConfig& layer : AllFormats(1, 1)) {
    formats += HasActivation(layer.a, h200);
  }
  return checks.find(absl::StrCat("\"formats\": ", formats, ",")) !=
         std::string::npos;
}

// What holds of all the layers on one architecture.
std::string Cell(const std::vector<LayerConfig>& layers, int64_t arch) {
  DeviceSpec device = *ModelledDevice("h200");
  device.sm_arch = arch;
  size_t legal = 0;
  for (const LayerConfig& layer : layers) {
    Problem problem;
    problem.layer = layer;
    legal += CheckProblem(problem, device).ok();
  }
  if (legal == 0) return "–";
  if (legal != layers.size()) return "some emulated";
  static const bool gated = AllGatedOnAnH200();
  return arch == 90 && gated ? "device-tested" : "emulated";
}

std::string Matrix() {
  std::string text = "| A | B |";
  for (const int64_t arch : kArchitectures)
    absl::StrAppend(&text, " ", arch, " |");
  absl::StrAppend(&text, "\n| --- | --- |");
  for ([[maybe_unused]] const int64_t arch : kArchitectures) {
    absl::StrAppend(&text, " --- |");
  }
  absl::StrAppend(&text, "\n");
  for (const DataType a : ActivationTypes()) {
    for (const Family& family : Families(a)) {
      absl::StrAppend(&text, "| ", a.ToString(), " | ", family.name, " |");
      for (const int64_t arch : kArchitectures) {
        absl::StrAppend(&text, " ", Cell(family.layers, arch), " |");
      }
      absl::StrAppend(&text, "\n");
    }
  }
  return text;
}

TEST(SupportMatrixTest, TheReadmeShowsWhatSpaceSays) {
  std::ifstream in(HONE_README, std::ios::binary);
  const std::string readme((std::istreambuf_iterator<char>(in)), {});
  const size_t begin = readme.find(std::string(kBegin));
  const size_t end = readme.find(std::string(kEnd));
  ASSERT_NE(begin, std::string::npos);
  ASSERT_NE(end, std::string::npos);
  const std::string shown =
      readme.substr(begin + kBegin.size(), end - begin - kBegin.size());
  EXPECT_EQ(shown, Matrix()) << "README.md must show, between the two marks:\n"
                             << Matrix();
}

}  // namespace
}  // namespace hone
