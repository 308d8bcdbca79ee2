// plot against a TuningService with scripted answers.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <sstream>

#include "tests/service/cli/command_fixture.h"
#include "tests/service/cli/xml_reader.h"

namespace hone {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class PlotTest : public CommandTest {
 protected:
  PlotTest() : service_(Start()) {
    for (int i = 0; i < 7; ++i) {
      v1::Trial trial;
      trial.set_m(1 << i);
      trial.set_config("config");
      trial.set_outcome(v1::TRIAL_OUTCOME_MEASURED);
      trial.set_median_ns(1000);
      trials_.push_back(trial);
    }
  }
  RunResult Plot(std::vector<std::string> more) {
    std::vector<std::string> args = {"plot", "--n=1024", "--k=512", "--b=int8"};
    args.insert(args.end(), more.begin(), more.end());
    return Run(args);
  }
  std::string Read(const std::string& name) const {
    std::ifstream file(Path(name));
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  // A program called rsvg-convert, alone in PATH.
  void Install(const std::string& script) {
    std::filesystem::create_directory(Path("tools"));
    std::ofstream(Path("tools/rsvg-convert")) << "#!/bin/sh\n" << script;
    chmod(Path("tools/rsvg-convert").c_str(), 0700);
    variables_["PATH"] = "/nowhere::" + Path("tools");
  }

  std::unique_ptr<FakeService> service_;
  std::vector<v1::Trial> trials_;
};

TEST_F(PlotTest, AHeatMapHasEveryPageOfTrials) {
  service_->SetTrials(trials_);
  const RunResult run = Plot({"--kind=heat", "--out=" + Path("h.svg")});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("Wrote "));
  const auto root = XmlReader::Read(Read("h.svg"));
  ASSERT_TRUE(root.has_value());
  std::set<std::string> texts;
  for (const XmlElement* text : root->All("text")) texts.insert(text->text);
  for (const char* text : {"1", "64", "MODELLED, not measured", "config"})
    EXPECT_TRUE(texts.contains(text)) << text;
  EXPECT_FALSE(std::filesystem::exists(Path("h.svg.partial")));
}

TEST_F(PlotTest, ARooflineIsThatOfBench) {
  ASSERT_EQ(Run({"tune", "--n=1024", "--k=512", "--b=int8"}).code, 0);
  const RunResult run =
      Plot({"--kind=roofline", "--out=" + Path("r.svg"), "-o", "json"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(ParseJson(run.out).fields().at("file").string_value(),
            Path("r.svg"));
  ASSERT_EQ(Run({"bench", "--n=1024", "--k=512", "--b=int8", "--count=1",
                 "--roofline=" + Path("b.svg")})
                .code,
            0);
  EXPECT_EQ(Read("r.svg"), Read("b.svg"));
  EXPECT_THAT(Read("r.svg"), HasSubstr("MODELLED"));
}

TEST_F(PlotTest, WithoutMeasurementsItSaysWhatToDo) {
  for (const char* kind : {"heat", "roofline"}) {
    const RunResult run =
        Plot({std::string("--kind=") + kind, "--out=" + Path("n.svg")});
    EXPECT_EQ(run.code, 1);
    EXPECT_THAT(run.err, HasSubstr("'hone tune' measures"));
    EXPECT_FALSE(std::filesystem::exists(Path("n.svg")));
  }
}

TEST_F(PlotTest, BadFlagsAreNamed) {
  service_->SetTrials(trials_);
  const struct {
    std::vector<std::string> args;
    const char* error;
  } cases[] = {
      {{"--out=a.svg"}, "--kind is ''; it must be roofline or heat"},
      {{"--kind=pie", "--out=a.svg"}, "--kind is 'pie'"},
      {{"--kind=heat"}, "--out is missing"},
      {{"--kind=heat", "--out=" + Path("a.jpg")}, "must end in .svg or .png"},
      {{"--kind=heat", "--out=" + Path("no/a.svg")}, "--out: cannot write"},
  };
  for (const auto& c : cases) {
    const RunResult run = Plot(c.args);
    EXPECT_EQ(run.code, 2);
    EXPECT_THAT(run.err, HasSubstr(c.error));
  }
}

TEST_F(PlotTest, APngIsMadeByRsvgConvert) {
  service_->SetTrials(trials_);
  Install("[ \"$1 $2\" = '--zoom=2 --output' ] && head -c 5 \"$4\" > \"$3\"");
  const RunResult run = Plot({"--kind=heat", "--out=" + Path("h.png")});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(Read("h.png"), "<?xml");
  EXPECT_FALSE(std::filesystem::exists(Path("h.png.partial")));
  EXPECT_FALSE(std::filesystem::exists(Path("h.png.partial.svg")));
}

TEST_F(PlotTest, WithoutRsvgConvertAPngSaysWhatIsMissing) {
  service_->SetTrials(trials_);
  variables_["PATH"] = "/nowhere";
  RunResult run = Plot({"--kind=heat", "--out=" + Path("h.png")});
  EXPECT_EQ(run.code, 1);
  EXPECT_THAT(run.err, AllOf(HasSubstr("rsvg-convert"),
                             HasSubstr("librsvg2-bin"), HasSubstr(".svg")));
  Install("exit 7");
  run = Plot({"--kind=heat", "--out=" + Path("h.png")});
  EXPECT_EQ(run.code, 1);
  EXPECT_THAT(run.err, HasSubstr("failed with exit code 7"));
  EXPECT_FALSE(std::filesystem::exists(Path("h.png")));
  EXPECT_FALSE(std::filesystem::exists(Path("h.png.partial.svg")));
}

}  // namespace
}  // namespace hone
