#include "service/convert/config_convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "service/convert/enum_convert.h"
#include "tests/service/convert/sample_values.h"

namespace hone {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(ConfigConvert, EveryFieldOfAProblemMakesTheRoundTrip) {
  const Problem problem = SampleProblem();
  const v1::Problem message = ToProto(problem);
  EXPECT_THAT(UnsetFields(message), IsEmpty());
  // Neither a window nor zero points go with the sample's block scales.
  EXPECT_THAT(UnsetFields(message.layer()), ElementsAre("b_scale_window"));
  EXPECT_THAT(UnsetFields(message.compute()), IsEmpty());
  EXPECT_EQ(message.layer().text(), problem.layer.ToString());
  const auto back = ProblemFromProto(message);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*back, problem);
  Problem grouped = problem;
  grouped.layer.b = DataType::Uint(4);
  grouped.layer.b_scale = ScaleGranularity::kGroup;
  grouped.layer.b_scale_type = kFloat16;
  grouped.layer.b_group_n = 0;
  for (const ZeroPoint zero : {ZeroPoint::kInteger, ZeroPoint::kFloat}) {
    grouped.layer.zero_point = zero;
    const auto again = ProblemFromProto(ToProto(grouped));
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(*again, grouped);
  }
  grouped.layer.zero_point = ZeroPoint::kNone;
  grouped.layer.b = kFloat4e2m1;
  grouped.layer.b_scale_type = kFloat8e8m0;
  grouped.layer.b_scale_window = true;
  const auto windowed = ProblemFromProto(ToProto(grouped));
  ASSERT_TRUE(windowed.ok()) << windowed.status();
  EXPECT_EQ(*windowed, grouped);
}

TEST(ConfigConvert, EveryFieldOfATuningConfigMakesTheRoundTrip) {
  const TuningConfig config = SampleTuning();
  const v1::TuningConfig message = ToProto(config);
  EXPECT_THAT(UnsetFields(message), IsEmpty());
  FieldErrors errors;
  EXPECT_EQ(FromProto(message, "config", errors), config);
  EXPECT_TRUE(errors.ok()) << errors.ToStatus();
}

TEST(ConfigConvert, EveryFieldOfADeviceMakesTheRoundTrip) {
  const DeviceSpec device = SampleDevice();
  const v1::DeviceSpec message = ToProto(device);
  EXPECT_THAT(UnsetFields(message), IsEmpty());
  FieldErrors errors;
  EXPECT_EQ(FromProto(message, "device", errors), device);
  EXPECT_TRUE(errors.ok()) << errors.ToStatus();
}

TEST(ConfigConvert, EveryDataTypeMakesTheRoundTrip) {
  std::vector<DataType> types = {kFloat16, kBfloat16, kFloat32};
  for (int bits = 1; bits <= 8; ++bits) {
    types.push_back(DataType::Int(bits));
    types.push_back(DataType::Uint(bits));
    for (int e = 0; e < bits; ++e) {
      const DataType type = DataType::Float(e, bits - 1 - e);
      if (DataType::Parse(type.ToString()).ok()) types.push_back(type);
    }
  }
  types.push_back(kFloat8e8m0);
  for (const DataType& type : types) {
    FieldErrors errors;
    const v1::DataType message = ToProto(type);
    EXPECT_EQ(FromProto(message, "t", errors), type) << type.ToString();
    EXPECT_EQ(message.text(), type.ToString());
    EXPECT_TRUE(errors.ok()) << errors.ToStatus();
  }
}

// The message's names are the canonical text's, so that both stay in step.
template <typename Enum, typename ProtoEnum>
void ExpectSameNames(absl::string_view prefix) {
  const auto* type = google::protobuf::GetEnumDescriptor<ProtoEnum>();
  for (int i = 1; i < type->value_count(); ++i) {
    FieldErrors errors;
    const auto value = static_cast<ProtoEnum>(type->value(i)->number());
    const Enum back = EnumFromProto<Enum>(value, {}, "f", errors);
    EXPECT_TRUE(errors.ok()) << errors.ToStatus();
    EXPECT_EQ(EnumToProto<ProtoEnum>(back), value);
    EXPECT_EQ(type->value(i)->name(),
              absl::StrCat(prefix, absl::AsciiStrToUpper(ToString(back))));
  }
}

TEST(ConfigConvert, EnumsHaveTheNamesOfTheCanonicalText) {
  ExpectSameNames<ScaleGranularity, v1::ScaleGranularity>("SCALE_GRANULARITY_");
  ExpectSameNames<InputScale, v1::InputScale>("INPUT_SCALE_");
  ExpectSameNames<ZeroPoint, v1::ZeroPoint>("ZERO_POINT_");
  ExpectSameNames<GemmType, v1::GemmType>("GEMM_TYPE_");
  ExpectSameNames<InputScaleLayout, v1::InputScaleLayout>(
      "INPUT_SCALE_LAYOUT_");
  ExpectSameNames<Producer, v1::Producer>("PRODUCER_");
  ExpectSameNames<MmaInstruction, v1::MmaInstruction>("MMA_INSTRUCTION_");
  ExpectSameNames<Split, v1::Split>("SPLIT_");
  ExpectSameNames<RasterOrder, v1::RasterOrder>("RASTER_ORDER_");
}

TEST(ConfigConvert, FieldsLeftOutTakeTheTextFormsDefaults) {
  v1::Problem message;
  message.mutable_layer()->set_n(4096);
  message.mutable_layer()->set_k(8192);
  const auto problem = ProblemFromProto(message);
  ASSERT_TRUE(problem.ok()) << problem.status();
  const auto parsed = Problem::Parse("k=8192,n=4096;");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(*problem, *parsed);
}

TEST(ConfigConvert, NamesEveryWrongFieldAndItsLegalValues) {
  v1::Problem message = ToProto(SampleProblem());
  message.mutable_layer()->mutable_b()->set_bits(77);
  message.mutable_layer()->set_zero_point(static_cast<v1::ZeroPoint>(99));
  message.mutable_compute()->mutable_accumulator()->clear_kind();
  const auto problem = ProblemFromProto(message);
  EXPECT_EQ(problem.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReasonOf(problem.status()), "INVALID_FIELD");
  EXPECT_THAT(
      ViolationsOf(problem.status()),
      ElementsAre(
          FieldViolation{"problem.layer.b.bits",
                         "is 77; it must be between 1 and 8"},
          FieldViolation{"problem.layer.zero_point",
                         "is unknown (99); it must be one of ZERO_POINT_NONE, "
                         "ZERO_POINT_INTEGER, ZERO_POINT_FLOAT"},
          FieldViolation{"problem.compute.accumulator.kind",
                         "is not set; it must be one of KIND_FLOAT, KIND_INT, "
                         "KIND_UINT"}));
}

TEST(ConfigConvert, ValidationNamesTheFieldOfTheRequest) {
  v1::Problem message = ToProto(SampleProblem());
  message.mutable_layer()->set_b_group(48);
  const auto problem = ProblemFromProto(message);
  ASSERT_EQ(ViolationsOf(problem.status()).size(), 1u);
  const FieldViolation violation = ViolationsOf(problem.status())[0];
  EXPECT_EQ(violation.field, "problem.layer.b_group");
  EXPECT_THAT(violation.description, HasSubstr("128"));
}

TEST(ConfigConvert, AMissingLayerAndAFloatThatIsNoTypeAreRefused) {
  EXPECT_EQ(ViolationsOf(ProblemFromProto({}).status())[0].field,
            "problem.layer");
  v1::Problem message = ToProto(SampleProblem());
  message.mutable_layer()->mutable_c()->set_exponent_bits(7);
  message.mutable_layer()->mutable_c()->set_mantissa_bits(20);
  EXPECT_EQ(ViolationsOf(ProblemFromProto(message).status())[0].field,
            "problem.layer.c");
}

TEST(ConfigConvert, ATuningConfigNeedsEveryField) {
  FieldErrors errors;
  FromProto(v1::TuningConfig(), "config", errors);
  std::vector<std::string> fields;
  for (const auto& v : errors.violations()) fields.push_back(v.field);
  EXPECT_THAT(fields, ElementsAre("config.producer_a", "config.producer_b",
                                  "config.producer_scale", "config.mma",
                                  "config.split", "config.raster"));
  v1::TuningConfig message = ToProto(SampleTuning());
  message.set_warp_n(0);
  FieldErrors zero;
  FromProto(message, "config", zero);
  EXPECT_EQ(zero.violations()[0].field, "config.warp_n");
}

}  // namespace
}  // namespace hone
