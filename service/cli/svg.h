// A small writer of SVG images: well-formed XML with all text escaped, no
// scripts and nothing from elsewhere.
#ifndef HONE_SERVICE_CLI_SVG_H_
#define HONE_SERVICE_CLI_SVG_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace hone {

// `text` as XML character data or an attribute's value. Control characters,
// which XML cannot hold, become U+FFFD.
std::string XmlEscape(absl::string_view text);

// Coordinates are pixels from the upper left corner. `style` arguments name
// classes of the style sheet.
class Svg {
 public:
  // `title` is what screen readers say; `style` a CSS style sheet.
  Svg(double width, double height, absl::string_view title,
      absl::string_view style);

  struct Point {
    double x = 0;
    double y = 0;
  };
  enum class Anchor { kStart, kMiddle, kEnd };

  void Rectangle(Point corner, double width, double height,
                 absl::string_view style);
  void Line(Point from, Point to, absl::string_view style);
  void Polyline(const std::vector<Point>& points, absl::string_view style);
  // `tooltip` shows under the pointer; `name` is the element's id.
  void Circle(Point centre, double radius, absl::string_view style,
              absl::string_view name, absl::string_view tooltip);
  // `at` is on the text's base line, turned clockwise around it by `degrees`.
  void Text(Point at, absl::string_view text, absl::string_view style,
            Anchor anchor = Anchor::kStart, double degrees = 0);

  // The whole document.
  std::string Build() const;

 private:
  std::string body_;
};

}  // namespace hone

#endif  // HONE_SERVICE_CLI_SVG_H_
