#include "db/bundle.h"

#include <openssl/evp.h>
#include <openssl/pem.h>

#include <random>

#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "db/table_json.h"
#include "gmock/gmock.h"
#include "tests/db/fixture.h"

namespace hone {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TestDevice;
using testing::TestProblem;
using testing::TestTable;
using BundleTest = testing::DbTest;

// The text with its SHA-256 made right again, as a forger would.
std::string Reseal(const std::string& text) {
  const size_t begin = text.find('\n') + 1;
  const size_t end = text.find("{\"ed25519\"");
  const size_t at = text.find("\"sha256\":\"") + 10;
  std::string sealed = text;
  sealed.replace(at, 64, Sha256Hex(text.substr(begin, end - begin)));
  return sealed;
}

std::string TestBundle() {
  DeviceSpec other = TestDevice();
  other.sm_count = 114;
  const auto text = RenderBundle({TestTable(), TestTable(TestProblem(64, 128)),
                                  TestTable(TestProblem(), other)});
  EXPECT_TRUE(text.ok()) << text.status();
  return *text;
}

struct KeyPair {
  std::string private_pem;
  std::string public_pem;
};

std::string PemOf(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  std::string text(data, static_cast<size_t>(size));
  BIO_free(bio);
  return text;
}

KeyPair NewKeyPair(const char* algorithm = "ED25519") {
  EVP_PKEY* key = EVP_PKEY_Q_keygen(nullptr, nullptr, algorithm);
  KeyPair pair;
  BIO* bio = BIO_new(BIO_s_mem());
  PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
  pair.private_pem = PemOf(bio);
  bio = BIO_new(BIO_s_mem());
  PEM_write_bio_PUBKEY(bio, key);
  pair.public_pem = PemOf(bio);
  EVP_PKEY_free(key);
  return pair;
}

TEST_F(BundleTest, ExportImportExportIsByteIdentical) {
  const auto here = OpenStore("here.db");
  DeviceSpec other = TestDevice();
  other.driver = "570.1";  // same class, another row
  ASSERT_TRUE(here->PublishTable(TestTable(TestProblem(64), other)).ok());
  ASSERT_TRUE(here->PublishTable(TestTable()).ok());
  ASSERT_TRUE(here->PublishTable(
                      TestTable(TestProblem(128), *ModelledDevice("rtx4090")))
                  .ok());
  const auto text = ExportBundle(*here);
  ASSERT_TRUE(text.ok()) << text.status();

  const auto there = OpenStore("there.db");
  const auto imported = ImportBundle(*there, *text, {.unix_us = 77});
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(imported->tables_added, 3);
  EXPECT_EQ(*ExportBundle(*there), *text);

  const auto stored = there->GetTable(TestProblem(), TestDevice());
  EXPECT_EQ(stored->table, TestTable());
  EXPECT_EQ(stored->origin, Origin::kImported);
  EXPECT_FALSE(stored->verified);
  EXPECT_EQ(stored->imported_from, ParseBundle(*text)->sha256);

  // Twice is once; back home everything is known.
  EXPECT_EQ(ImportBundle(*there, *text, {})->tables_added, 0);
  EXPECT_EQ(*there->CurrentRevision(), 1);
  EXPECT_EQ(ImportBundle(*here, *text, {})->tables_known, 3);
  EXPECT_EQ(*here->CurrentRevision(), 3);
}

TEST_F(BundleTest, ATableWithoutATradeOffKeepsTheTextOfOlderVersions) {
  DispatchTable table = TestTable();
  table.trade_off.clear();
  const std::string text = *RenderBundle({table});
  EXPECT_EQ(text.find("trade_off"), text.npos);
  EXPECT_EQ(ParseBundle(text)->tables[0], table);
  const auto store = OpenStore();
  ASSERT_TRUE(ImportBundle(*store, text, {}).ok());
  EXPECT_EQ(*ExportBundle(*store), text);
  // With one it is another table: the curve is part of what is hashed.
  EXPECT_EQ(
      ImportBundle(*store, *RenderBundle({TestTable()}), {})->tables_added, 1);
}

TEST_F(BundleTest, ExportFollowsItsFilter) {
  const auto store = OpenStore();
  EXPECT_EQ(ExportBundle(*store).status().code(), absl::StatusCode::kNotFound);
  DispatchTable first = TestTable();
  DispatchTable second = TestTable();
  second.session_id = "second";
  ASSERT_TRUE(store->PublishTable(first).ok());
  ASSERT_TRUE(store->PublishTable(second).ok());
  ASSERT_TRUE(store->PublishTable(TestTable(TestProblem(64))).ok());
  const auto tables = [&](const TableFilter& filter) {
    return ParseBundle(*ExportBundle(*store, filter))->tables;
  };
  EXPECT_THAT(tables({.problem = TestProblem()}), ElementsAre(second));
  EXPECT_THAT(tables({.revision = 1}), ElementsAre(first));
  EXPECT_EQ(tables({.device_class = TestDevice().ClassHash()}).size(), 2u);
  EXPECT_EQ(ExportBundle(*store, {.device_class = "none"}).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(BundleTest, ImportNeverOverridesLocalTables) {
  const auto store = OpenStore();
  DispatchTable local = TestTable();
  local.session_id = "local";
  ASSERT_TRUE(store->PublishTable(local).ok());
  ASSERT_TRUE(ImportBundle(*store, TestBundle(), {}).ok());
  EXPECT_EQ(store->GetTable(TestProblem(), TestDevice())->table, local);
  EXPECT_EQ(store->GetTable(TestProblem(64, 128), TestDevice())->origin,
            Origin::kImported);
}

TEST_F(BundleTest, ABadBundleChangesNothing) {
  const auto store = OpenStore();
  // Only the last table is wrong.
  std::string text = TestBundle();
  const size_t at = text.rfind("\"stages=");
  const size_t stages = text.rfind("stages=6");
  ASSERT_EQ(at, text.npos);
  ASSERT_NE(stages, text.npos);
  text[stages + 7] = '0';
  const auto imported = ImportBundle(*store, Reseal(text), {});
  EXPECT_EQ(imported.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(imported.status().message(), HasSubstr("tuning.stages"));
  EXPECT_EQ(*store->CurrentRevision(), 0);
  EXPECT_TRUE(store->ListDevices()->empty());
}

TEST_F(BundleTest, ErrorsNameLineAndField) {
  const std::string good = TestBundle();
  ASSERT_TRUE(ParseBundle(good).ok());
  // Devices are lines 2 and 3, tables lines 4 to 6.
  const struct {
    std::vector<std::pair<std::string, std::string>> replace;
    std::string message;
  } kCases[] = {
      {{{"\"version\":1}", "\"version\":2}"}}, "line 1: version is 2"},
      {{{"hone-bundle", "hone-bungle"}}, "line 1: format"},
      {{{"\"tables\":3", "\"tables\":2"}}, "line 1: devices 2 and tables 2"},
      {{{"\"devices\":2", "\"devices\":-1"}}, "line 1: devices -1"},
      {{{"\"ecc\":true", "\"ecc\":1"}}, "line 2: device.ecc must be true"},
      {{{"\"ecc\":true", "\"ecc\":false"}}, "line 2: key is"},
      {{{"\"kind\":\"measured\"", "\"kind\":\"guessed\""}},
       "line 2: device.kind"},
      {{{"\"launch_ns\":2200.5", "\"launch_ns\":2200.50"}}, "line 2: byte"},
      {{{"\"gate\":\"emulated\"", "\"gate\":\"trusted\""}}, "line 4: gate is"},
      {{{"\"gate\":\"emulated\"", "\"gate\":\"device\",\"h\":1"}},
       "line 4: h is not a known field"},
      {{{"\"gate\":\"emulated\",", ""}}, "line 4: gate is missing"},
      {{{"\"m_hi\":16", "\"m_hi\":15"}}, "line 4: table entry 0"},
      {{{"\"m_hi\":16", "\"m_hi\":\"16\""}},
       "line 4: entries[0].m_hi must be an integer"},
      {{{"\"margin\":-0.3333333333333333", "\"margin\":true"}},
       "line 4: entries[0].evidence[1].margin must be a number"},
      {{{"\"ladder\":[1,", "\"ladder\":[true,"}},
       "line 4: ladder[0] must be an integer"},
      {{{"\"registers\":168", "\"registers\":-168"}},
       "line 4: table.entries[0].compile.registers"},
      {{{"\"worst_regret\":0.2681", "\"worst_regret\":-0.2681"}},
       "line 4: table.trade_off[0].worst_regret must be at least 0"},
      {{{"\"kernels\":2", "\"kernels\":1"}},
       "line 4: table.trade_off[1].kernels must rise from 1"},
      {{{"\"proven\":false", "\"proven\":0"}},
       "line 4: trade_off[1].proven must be true or false"},
      {{{"bias=0,", ""}}, "not in canonical form"},
      {{{"bias=0,", "bias=7,"}}, "line 4: layer.bias"},
      {{{"bias=0,", "cookies=7,"}}, "line 4: layer: \"cookies=7\""},
  };
  for (const auto& c : kCases) {
    std::string text = good;
    for (const auto& [from, to] : c.replace) {
      ASSERT_NE(text.find(from), text.npos) << from;
      text = absl::StrReplaceAll(text, {{from, to}});
    }
    const absl::Status status = ParseBundle(Reseal(text)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << c.message;
    EXPECT_THAT(status.message(), HasSubstr(c.message));
  }
}

TEST_F(BundleTest, OnlyTheCanonicalOrderIsRead) {
  const std::string good = TestBundle();
  const std::vector<std::string> lines = absl::StrSplit(good, '\n');
  ASSERT_EQ(lines.size(), 7u);  // the last one is empty
  const auto join = [&](std::vector<int> order) {
    std::string text;
    for (const int i : order) absl::StrAppend(&text, lines[i], "\n");
    return Reseal(text);
  };
  EXPECT_TRUE(ParseBundle(join({0, 1, 2, 3, 4, 5})).ok());
  for (const std::vector<int>& order : {std::vector<int>{0, 2, 1, 3, 4, 5},
                                        {0, 1, 2, 4, 3, 5},
                                        {0, 1, 2, 3, 4, 4},
                                        {0, 1, 3, 4, 5, 2},
                                        {0, 1, 2, 3, 4},
                                        {1, 0, 2, 3, 4, 5},
                                        {0}}) {
    EXPECT_EQ(ParseBundle(join(order)).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  // A device that no table uses.
  std::string unused =
      absl::StrReplaceAll(good, {{"\"devices\":2", "\"devices\":3"}});
  DeviceSpec spare = TestDevice();
  spare.sm_count = 1;
  const size_t end = unused.find('\n') + 1;
  unused.insert(end, DeviceLine(spare) + "\n");
  EXPECT_EQ(ParseBundle(Reseal(unused)).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(BundleTest, TwoTablesOfOneKeyAreRefused) {
  const auto text = RenderBundle({TestTable(), TestTable()});
  EXPECT_EQ(text.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(text.status().message(), HasSubstr("there are two of"));
}

TEST_F(BundleTest, HostileTextsAreRefused) {
  for (const std::string& text :
       {std::string(), std::string("\n"), std::string("\n\n\n"),
        std::string("{}\n"), std::string(1000, '\0') + "\n",
        std::string("{\"ed25519\":\"\"}\n"),
        "{\"ed25519\":\"" + std::string(128, '0') + "\"}\n",
        std::string(100000, '[') + "\n",
        "{\"a\":" + std::string(5 << 20, '1') + "}\n",
        std::string("\xEF\xBB\xBF{}\n"), TestBundle() + "x",
        TestBundle() + "\n", TestBundle().substr(0, 500)}) {
    EXPECT_EQ(ParseBundle(text).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  const std::string large(kMaxBundleBytes + 1, '\n');
  EXPECT_THAT(ParseBundle(large).status().message(), HasSubstr("at most"));
}

// With the SHA-256 as it was, no changed bit gets through.
TEST_F(BundleTest, EveryFlippedBitIsNoticed) {
  DispatchTable table = TestTable();
  table.entries.resize(1);
  table.entries[0].m_hi = 0;
  table.entries[0].evidence.resize(1);
  table.entries[0].evidence[0].ties.resize(1);
  const std::string good = *RenderBundle({table});
  for (size_t i = 0; i < good.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string text = good;
      text[i] = static_cast<char>(text[i] ^ (1 << bit));
      EXPECT_FALSE(ParseBundle(text).ok()) << "byte " << i << " bit " << bit;
    }
  }
}

// With the SHA-256 made right, what is accepted is canonical and valid.
TEST_F(BundleTest, RandomForgeriesAreRefusedOrCanonical) {
  const std::string good = TestBundle();
  std::mt19937 random(7);
  const auto pick = [&](size_t below) {
    return std::uniform_int_distribution<size_t>(0, below - 1)(random);
  };
  const std::string spice = "0123456789-.eE{}[]\",:\\u\n truefalsn=;\x80\xFF";
  int accepted = 0;
  for (int i = 0; i < 4000; ++i) {
    std::string text = good;
    const size_t changes = 1 + pick(3);
    for (size_t j = 0; j < changes; ++j) {
      const size_t at = pick(text.size());
      switch (pick(4)) {
        case 0:
          text[at] = spice[pick(spice.size())];
          break;
        case 1:
          text.insert(at, 1, spice[pick(spice.size())]);
          break;
        case 2:
          text.erase(at, 1 + pick(20));
          break;
        default:
          text.insert(at, text.substr(pick(text.size()), 1 + pick(60)));
      }
    }
    if (text.find("\"sha256\":\"") > 200 || text.size() < 300) continue;
    text = Reseal(text);
    const auto bundle = ParseBundle(text);
    if (!bundle.ok()) {
      ASSERT_EQ(bundle.status().code(), absl::StatusCode::kInvalidArgument)
          << bundle.status();
      continue;
    }
    ++accepted;
    ASSERT_EQ(*RenderBundle(bundle->tables), text);
    for (const DispatchTable& table : bundle->tables) {
      ASSERT_TRUE(CheckTable(table).ok());
    }
  }
  // A changed digit of a number makes another good bundle.
  EXPECT_GT(accepted, 0);
  EXPECT_LT(accepted, 1000);
}

TEST_F(BundleTest, ASignatureIsCheckedAgainstTheGivenKey) {
  const KeyPair ours = NewKeyPair();
  const KeyPair theirs = NewKeyPair();
  const std::string plain = TestBundle();
  const auto text = SignBundle(plain, ours.private_pem);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(text->substr(0, plain.size()), plain);

  const auto good = ParseBundle(*text, ours.public_pem);
  ASSERT_TRUE(good.ok()) << good.status();
  EXPECT_TRUE(good->is_signed);
  EXPECT_EQ(good->sha256, ParseBundle(plain)->sha256);
  EXPECT_FALSE(ParseBundle(plain)->is_signed);
  // Without a key the signature is only seen.
  EXPECT_TRUE(ParseBundle(*text)->is_signed);

  const auto code = [](const absl::StatusOr<Bundle>& bundle) {
    return bundle.status().code();
  };
  EXPECT_EQ(code(ParseBundle(*text, theirs.public_pem)),
            absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(code(ParseBundle(plain, ours.public_pem)),
            absl::StatusCode::kPermissionDenied);
  std::string forged =
      absl::StrReplaceAll(*text, {{"\"registers\":168", "\"registers\":167"}});
  EXPECT_TRUE(ParseBundle(Reseal(forged)).ok());
  EXPECT_EQ(code(ParseBundle(Reseal(forged), ours.public_pem)),
            absl::StatusCode::kPermissionDenied);
  std::string broken = *text;
  char& digit = broken[broken.size() - 10];
  digit = digit == '0' ? '1' : '0';
  EXPECT_EQ(code(ParseBundle(broken, ours.public_pem)),
            absl::StatusCode::kPermissionDenied);

  // Signing again replaces the signature; importing demands the key.
  EXPECT_EQ(*SignBundle(*text, ours.private_pem), *text);
  const auto store = OpenStore();
  EXPECT_EQ(ImportBundle(*store, *text, {.public_key_pem = theirs.public_pem})
                .status()
                .code(),
            absl::StatusCode::kPermissionDenied);
  EXPECT_TRUE(
      ImportBundle(*store, *text, {.public_key_pem = ours.public_pem}).ok());
  EXPECT_EQ(*ExportBundle(*store), plain);
}

TEST_F(BundleTest, OnlyEd25519KeysSignAndVerify) {
  const std::string plain = TestBundle();
  const KeyPair ours = NewKeyPair();
  const KeyPair other = NewKeyPair("ED448");
  const std::string text = *SignBundle(plain, ours.private_pem);
  for (const std::string& key :
       {std::string("junk"), ours.public_pem, other.private_pem}) {
    EXPECT_EQ(SignBundle(plain, key).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  for (const std::string& key :
       {std::string("junk"), ours.private_pem, other.public_pem}) {
    EXPECT_EQ(ParseBundle(text, key).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(SignBundle("junk\n", ours.private_pem).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace hone
