#include "kernels/config/source_text.h"

#include <string>

#include "absl/strings/ascii.h"
#include "gtest/gtest.h"

namespace hone {
namespace {

constexpr char kSource[] = R"cc(
  // Adds.
#define TWICE(x) ((x) + (x))
  template <typename T>
  __device__ T Add(T a, T b) {
    /* what it
       says */
    asm volatile("add.s32 %0, // no comment" ::"l"(a));
    return a + -b * 0x1'0 - 1.5e+3;
  }
)cc";

TEST(CanonicalSourceTest, CommentsAndFormattingDoNotCount) {
  const std::string canonical = CanonicalSource(kSource);
  EXPECT_EQ(canonical,
            "#define TWICE(x) ((x) + (x))\n"
            "template < typename T > __device__ T Add ( T a , T b ) { asm "
            "volatile ( \"add.s32 %0, // no comment\" :: \"l\" ( a ) ) ; "
            "return a + - b * 0x1'0 - 1.5e+3 ; }");
  EXPECT_EQ(CanonicalSource(R"cc(
#define TWICE(x) /* both */ \
                ((x) + (x))    // once more \
       and a comment that goes on
              template <typename T>
              __device__ T Add(T a, T b) {                          // "
                asm volatile("add.s32 %0, // no comment" ::"l"(a)); /* ' */
                ret\
urn a + -b * 0x1'0 - 1.5e+3;
              })cc"),
            canonical);
  std::string dos;
  for (const char c : std::string(kSource)) {
    if (c == '\n') dos.push_back('\r');
    dos.push_back(c);
  }
  EXPECT_EQ(CanonicalSource(dos), canonical);
  // What it says is its own canonical text.
  EXPECT_EQ(CanonicalSource(canonical), canonical);
}

TEST(CanonicalSourceTest, TokensCount) {
  const auto differ = [](const std::string& a, const std::string& b) {
    EXPECT_NE(CanonicalSource(a), CanonicalSource(b)) << a << "\n" << b;
  };
  const std::string source = kSource;
  // Any other character outside comments and white space.
  for (size_t i = source.find("#define"); i < source.size(); ++i) {
    if (i >= source.find("/*") && i < source.find("asm")) continue;
    if (absl::ascii_isspace(source[i])) continue;
    std::string other = source;
    other[i] = source[i] == 'q' ? 'r' : 'q';
    differ(source, other);
  }
  differ("a b", "ab");
  differ("a+ +b", "a++b");
  differ("a - -b", "a-- b");
  differ("x = y / *z", "x = y /*z*/");
  differ("f<g<int> >", "f<g<int>>");
  differ("\"a b\"", "\"a  b\"");
  differ("\"// a\"", "\"// b\"");
  differ("'/', '/'", "'/'");
  differ("L'a'", "L 'a'");
  differ("\"\\\"// a\"", "\"\\\"// b\"");
  differ("R\"(\")\" // a", "R\"(\") // b\"");
  differ("R\"x(a \\\n b)x\"", "R\"x(a  b)x\"");
  differ("1'000 // '", "1 '000 // '");
  differ("#define F(x) x", "#define F (x) x");
  differ("#define A 1\nb", "#define A 1 b");
  differ("a\n#if b\nc\n#endif", "a #if b\nc\n#endif");
  differ("// a \\\nint b;", "// a\nint b;");
}

TEST(CanonicalSourceTest, UnfinishedTextEnds) {
  for (const char* text : {"", " ", "/* a", "// a", "\"a", "'", "\\", "\\\n",
                           "R\"x(a", "R\"", "1.", ".", "#", "\"a\\", "u8"}) {
    const std::string canonical = CanonicalSource(text);
    EXPECT_LE(canonical.size(), std::string(text).size() + 1) << text;
  }
}

}  // namespace
}  // namespace hone
