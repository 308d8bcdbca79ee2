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
// every format (tests/kernels/device/mma_sync_gemm_test.cc).
constexpr int64_t kArchitectures[] = {75, 80, 86, 89, 90};
constexpr absl::string_view kBegin = "<!-- support matrix: begin -->\n";
constexpr absl::string_view kEnd = "<!-- support matrix: end -->\n";

struct Family {
  std::string name;
  std::vector<LayerConfig> layers;
};

std::vector<LayerConfig> WithTypes(DataType a, DataType::Kind kind,
                                   ZeroPoint zero) {
  std::vector<LayerConfig> layers;
  for (const DataType b : WeightTypes(a)) {
    if (b.kind() != kind) continue;
    layers.push_back(
        MakeLayer(1024, 1024, a, b, {ScaleGranularity::kChannel, a}, zero));
    layers.push_back(
        MakeLayer(1024, 1024, a, b, {ScaleGranularity::kGroup, a, 64}, zero));
  }
  return layers;
}

std::vector<Family> Families(DataType a) {
  using Kind = DataType::Kind;
  std::vector<Family> families = {
      {"int1 to int8", WithTypes(a, Kind::kInt, ZeroPoint::kNone)},
      {"uint1 to uint8", WithTypes(a, Kind::kUint, ZeroPoint::kNone)},
      {"uint1 to uint8, integer zero points",
       WithTypes(a, Kind::kUint, ZeroPoint::kInteger)},
      {"uint1 to uint8, float zero points",
       WithTypes(a, Kind::kUint, ZeroPoint::kFloat)},
      {"every float eXmY up to 8 bits that fits A, X = 0 included",
       WithTypes(a, Kind::kFloat, ZeroPoint::kNone)},
  };
  Family scales = {
      "int4 with every scale: channel, group 16 to 256, tensor, "
      "group and tensor, float32 block",
      {}};
  for (const Scaling& scaling : Scalings()) {
    scales.layers.push_back(MakeLayer(1024, 1024, a, kInt4, scaling));
  }
  families.push_back(scales);
  for (const char* preset : {"mxfp4", "mxfp8", "nvfp4"}) {
    LayerConfig layer =
        MakeLayer(1024, 1024, a, kInt4, {ScaleGranularity::kChannel, a});
    EXPECT_TRUE(ApplyPreset(preset, layer).ok());
    families.push_back({preset, {layer}});
  }
  return families;
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
  return legal == layers.size() ? "emulated" : "some emulated";
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
  std::vector<Family> families = Families(kFloat16);
  const std::vector<Family> bfloat16 = Families(kBfloat16);
  for (size_t i = 0; i < families.size(); ++i) {
    families[i].layers.insert(families[i].layers.end(),
                              bfloat16[i].layers.begin(),
                              bfloat16[i].layers.end());
    absl::StrAppend(&text, "| float16, bfloat16 | ", families[i].name, " |");
    for (const int64_t arch : kArchitectures) {
      absl::StrAppend(&text, " ", Cell(families[i].layers, arch), " |");
    }
    absl::StrAppend(&text, "\n");
  }
  for (const DataType a :
       {kFloat8e4m3, kFloat8e5m2, kInt8, kInt4, kFloat4e2m1}) {
    absl::StrAppend(&text, "| ", a.ToString(), " | any |");
    std::vector<LayerConfig> layers;
    for (const DataType b : {kInt4, kInt8, kFloat8e4m3, kFloat4e2m1}) {
      layers.push_back(
          MakeLayer(1024, 1024, a, b, {ScaleGranularity::kChannel, kFloat32}));
      layers.back().c = kFloat16;
      layers.back().a_scale = InputScale::kToken;
    }
    for (const int64_t arch : kArchitectures) {
      absl::StrAppend(&text, " ", Cell(layers, arch), " |");
    }
    absl::StrAppend(&text, "\n");
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
