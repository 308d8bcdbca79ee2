#include "service/cli/svg.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace hone {

std::string XmlEscape(absl::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default: {
        const auto byte = static_cast<unsigned char>(c);
        const bool control = byte < 0x20 && c != '\t' && c != '\n';
        if (control) {
          out += "\xEF\xBF\xBD";
        } else {
          out += c;
        }
      }
    }
  }
  return out;
}

Svg::Svg(double width, double height, absl::string_view title,
         absl::string_view style) {
  body_ = absl::StrFormat(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%g\" height=\"%g\" "
      "viewBox=\"0 0 %g %g\" role=\"img\">\n<title>%s</title>\n"
      "<style>\n%s</style>\n",
      width, height, width, height, XmlEscape(title), XmlEscape(style));
}

void Svg::Rectangle(Point corner, double width, double height,
                    absl::string_view style) {
  absl::StrAppendFormat(&body_,
                        "<rect class=\"%s\" x=\"%.2f\" y=\"%.2f\" "
                        "width=\"%.2f\" height=\"%.2f\"/>\n",
                        XmlEscape(style), corner.x, corner.y, width, height);
}

void Svg::Line(Point from, Point to, absl::string_view style) {
  absl::StrAppendFormat(&body_,
                        "<line class=\"%s\" x1=\"%.2f\" y1=\"%.2f\" "
                        "x2=\"%.2f\" y2=\"%.2f\"/>\n",
                        XmlEscape(style), from.x, from.y, to.x, to.y);
}

void Svg::Polyline(const std::vector<Point>& points, absl::string_view style) {
  absl::StrAppendFormat(&body_, "<polyline class=\"%s\" points=\"",
                        XmlEscape(style));
  for (size_t i = 0; i < points.size(); ++i) {
    absl::StrAppendFormat(&body_, "%s%.2f,%.2f", i == 0 ? "" : " ", points[i].x,
                          points[i].y);
  }
  body_ += "\"/>\n";
}

void Svg::Circle(Point centre, double radius, absl::string_view style,
                 absl::string_view name, absl::string_view tooltip) {
  absl::StrAppendFormat(
      &body_,
      "<circle id=\"%s\" class=\"%s\" cx=\"%.2f\" cy=\"%.2f\" r=\"%.2f\">"
      "<title>%s</title></circle>\n",
      XmlEscape(name), XmlEscape(style), centre.x, centre.y, radius,
      XmlEscape(tooltip));
}

void Svg::Text(Point at, absl::string_view text, absl::string_view style,
               Anchor anchor, double degrees) {
  const char* const names[] = {"start", "middle", "end"};
  absl::StrAppendFormat(&body_,
                        "<text class=\"%s\" x=\"%.2f\" y=\"%.2f\" "
                        "text-anchor=\"%s\"",
                        XmlEscape(style), at.x, at.y,
                        names[static_cast<int>(anchor)]);
  if (degrees != 0) {
    absl::StrAppendFormat(&body_, " transform=\"rotate(%.2f %.2f %.2f)\"",
                          degrees, at.x, at.y);
  }
  absl::StrAppend(&body_, ">", XmlEscape(text), "</text>\n");
}

std::string Svg::Build() const { return body_ + "</svg>\n"; }

}  // namespace hone
