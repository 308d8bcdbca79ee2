#include "service/models/layer_file.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hone {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kFile[] = R"({
  "model": "Tiny", "source": "here",
  "quantization": {"a": "float16", "b": "int4", "group": 128},
  "layers": [
    {"name": "up", "n": 1024, "k": 512, "split": "n", "count": 3, "bias": true},
    {"name": "down", "n": 512, "k": 1024, "split": "k"}
  ]})";

std::string Error(absl::string_view text,
                  const LayerFileOptions& options = {}) {
  const absl::Status status =
      ParseLayerFile("tiny.json", text, options).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

std::string With(absl::string_view from, absl::string_view to) {
  return absl::StrReplaceAll(kFile, {{from, to}});
}

TEST(LayerFileTest, ReadsLayers) {
  const auto layers = ParseLayerFile("tiny.json", kFile, {});
  ASSERT_TRUE(layers.ok()) << layers.status();
  ASSERT_EQ(layers->size(), 2u);
  EXPECT_EQ((*layers)[0].model, "Tiny");
  EXPECT_EQ((*layers)[0].name, "up");
  EXPECT_EQ((*layers)[0].count, 3);
  EXPECT_TRUE((*layers)[0].problem.layer.bias);
  EXPECT_EQ((*layers)[0].problem.layer.b_group, 128);
  EXPECT_EQ((*layers)[1].count, 1);
  EXPECT_FALSE((*layers)[1].problem.layer.bias);
}

TEST(LayerFileTest, PresetsSetTypeAndScales) {
  const std::string text =
      With(R"("b": "int4", "group": 128)", R"("b": "mxfp4")");
  const auto layers = ParseLayerFile("tiny.json", text, {});
  ASSERT_TRUE(layers.ok()) << layers.status();
  EXPECT_EQ((*layers)[1].problem.layer.b, kFloat4e2m1);
  EXPECT_EQ((*layers)[1].problem.layer.b_group, 32);
  EXPECT_EQ((*layers)[1].problem.layer.b_scale_type, kFloat8e8m0);
  EXPECT_THAT(Error(With("int4", "nvfp4")),
              HasSubstr("\"b\" is nvfp4, which sets the scales"));
  EXPECT_THAT(Error(text, {.group = 64}), HasSubstr("--group"));
}

TEST(LayerFileTest, RanksDivideTheSplitDimension) {
  LayerFileOptions options;
  options.tensor_parallel = 4;
  const auto layers = ParseLayerFile("tiny.json", kFile, options);
  ASSERT_TRUE(layers.ok()) << layers.status();
  EXPECT_EQ((*layers)[0].problem.layer.n, 256);
  EXPECT_EQ((*layers)[0].problem.layer.k, 512);
  EXPECT_EQ((*layers)[1].problem.layer.n, 512);
  EXPECT_EQ((*layers)[1].problem.layer.k, 256);
  options.tensor_parallel = 3;
  EXPECT_EQ(Error(kFile, options),
            "tiny.json: layer 1 (up): \"n\" is 1024, which --tp=3 does not "
            "divide");
}

TEST(LayerFileTest, OptionsReplaceAndFilter) {
  LayerFileOptions options;
  options.layers = {"down"};
  options.a = kBfloat16;
  options.b = kInt8;
  options.group = 0;
  options.batch_invariant = true;
  const auto layers = ParseLayerFile("tiny.json", kFile, options);
  ASSERT_TRUE(layers.ok()) << layers.status();
  ASSERT_EQ(layers->size(), 1u);
  EXPECT_TRUE((*layers)[0].problem.compute.batch_invariant);
  const LayerConfig& layer = (*layers)[0].problem.layer;
  EXPECT_EQ(layer.a, kBfloat16);
  EXPECT_EQ(layer.c, kBfloat16);
  EXPECT_EQ(layer.b, kInt8);
  EXPECT_EQ(layer.b_scale, ScaleGranularity::kChannel);
  options.layers = {"sideways"};
  EXPECT_THAT(Error(kFile, options),
              AllOf(HasSubstr("'sideways'"), HasSubstr("down, up")));
}

TEST(LayerFileTest, ErrorsNameFileLayerAndField) {
  EXPECT_THAT(Error("{"), HasSubstr("tiny.json is not a JSON object"));
  EXPECT_THAT(Error(With("\"k\": 512", "\"k\": 0")),
              HasSubstr("tiny.json: layer 1 (up): \"k\" must be an integer "
                        "from 1 to 1048576"));
  EXPECT_THAT(Error(With("\"k\": 512", "\"k\": 5.5")), HasSubstr("\"k\""));
  EXPECT_THAT(Error(With("\"k\": 512", "\"k\": \"512\"")), HasSubstr("\"k\""));
  EXPECT_THAT(Error(With("\"split\": \"k\"", "\"split\": \"m\"")),
              HasSubstr("layer 2 (down): \"split\" must be \"n\" or \"k\""));
  EXPECT_THAT(Error(With("\"bias\": true", "\"bias\": 1")),
              HasSubstr("\"bias\" must be true or false"));
  EXPECT_THAT(Error(With("\"count\"", "\"cuont\"")),
              HasSubstr("\"cuont\" is unknown"));
  EXPECT_THAT(Error(With("\"down\"", "\"up\"")),
              HasSubstr("used by an earlier layer"));
  EXPECT_THAT(Error(With("int4", "int44")),
              HasSubstr("tiny.json: quantization: \"b\""));
  EXPECT_THAT(Error(With("\"model\": \"Tiny\", ", "")), HasSubstr("\"model\""));
  EXPECT_THAT(Error(With("\"group\": 128", "\"group\": -1")),
              HasSubstr("\"group\""));
  EXPECT_THAT(
      std::string(ReadLayerFile("/nowhere/x.json", {}).status().message()),
      HasSubstr("/nowhere/x.json"));
}

// The weights of a model's linear layers, in billions.
double Billions(const std::vector<ModelLayer>& layers) {
  double weights = 0;
  for (const ModelLayer& layer : layers) {
    weights += static_cast<double>(layer.count) *
               static_cast<double>(layer.problem.layer.n) *
               static_cast<double>(layer.problem.layer.k);
  }
  return weights / 1e9;
}

TEST(ShippedModelsTest, SizesAddUpToTheModels) {
  // Published parameter counts, less the embeddings and the output head.
  const std::map<std::string, double> expected = {
      {"llama-3.1-70b.json", 68.4},
      {"qwen2.5-32b.json", 31.2},
      {"mistral-small-24b.json", 22.2}};
  const auto files = ShippedLayerFiles();
  EXPECT_EQ(files.size(), expected.size());
  for (const auto& [name, text] : files) {
    const auto layers = ParseLayerFile(name, text, {});
    ASSERT_TRUE(layers.ok()) << layers.status();
    EXPECT_EQ(layers->size(), 4u);
    EXPECT_NEAR(Billions(*layers), expected.at(name), 0.1) << name;
    // What is embedded is what ships.
    const auto read =
        ReadLayerFile(absl::StrCat(HONE_MODELS_DIR, "/", name), {});
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(Billions(*read), Billions(*layers));
  }
}

TEST(ShippedModelsTest, DivideAmongTheUsualRanks) {
  for (const auto& [name, text] : ShippedLayerFiles()) {
    for (const int64_t ranks : {2, 4, 8}) {
      LayerFileOptions options;
      options.tensor_parallel = ranks;
      const auto layers = ParseLayerFile(name, text, options);
      EXPECT_TRUE(layers.ok()) << layers.status();
    }
  }
}

}  // namespace
}  // namespace hone
