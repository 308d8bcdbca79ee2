// A strict reader of the XML that Hone writes: elements, attributes and text;
// no comments, no CDATA, no doctype. Anything else is an error.
#ifndef HONE_TESTS_SERVICE_CLI_XML_READER_H_
#define HONE_TESTS_SERVICE_CLI_XML_READER_H_

#include <cctype>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace hone {

struct XmlElement {
  std::string name;
  std::map<std::string, std::string> attributes;
  // Its own text, entities resolved.
  std::string text;
  std::vector<XmlElement> children;

  // All elements of a name, itself and below, in document order.
  std::vector<const XmlElement*> All(const std::string& wanted) const {
    std::vector<const XmlElement*> found;
    if (name == wanted) found.push_back(this);
    for (const XmlElement& child : children) {
      for (const XmlElement* e : child.All(wanted)) found.push_back(e);
    }
    return found;
  }
};

class XmlReader {
 public:
  // The root element, or nullopt when `text` is not well formed.
  static std::optional<XmlElement> Read(const std::string& text) {
    XmlReader reader(text);
    if (reader.Take("<?xml ")) {
      const size_t end = text.find("?>", reader.at_);
      if (end == std::string::npos) return std::nullopt;
      reader.at_ = end + 2;
    }
    reader.SkipSpace();
    XmlElement root;
    if (!reader.Element(root)) return std::nullopt;
    reader.SkipSpace();
    if (reader.at_ != text.size()) return std::nullopt;
    return root;
  }

 private:
  explicit XmlReader(const std::string& text) : text_(text) {}

  char Peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool Take(const std::string& what) {
    if (text_.compare(at_, what.size(), what) != 0) return false;
    at_ += what.size();
    return true;
  }
  void SkipSpace() {
    while (std::isspace(static_cast<unsigned char>(Peek()))) ++at_;
  }
  std::string Name() {
    std::string name;
    while (std::isalnum(static_cast<unsigned char>(Peek())) || Peek() == '-' ||
           Peek() == ':' || Peek() == '_') {
      name += text_[at_++];
    }
    return name;
  }
  // Character data up to `end`, which is not taken.
  bool Data(char end, std::string& out) {
    while (Peek() != end) {
      const auto c = static_cast<unsigned char>(Peek());
      if (c == '\0' || c == '<') return false;
      if (c < 0x20 && c != '\t' && c != '\n' && c != '\r') return false;
      if (c != '&') {
        out += text_[at_++];
        continue;
      }
      static const std::map<std::string, char> kEntities = {{"&amp;", '&'},
                                                            {"&lt;", '<'},
                                                            {"&gt;", '>'},
                                                            {"&quot;", '"'},
                                                            {"&#39;", '\''}};
      bool known = false;
      for (const auto& [entity, value] : kEntities) {
        if (known || !Take(entity)) continue;
        out += value;
        known = true;
      }
      if (!known) return false;
    }
    return true;
  }
  bool Element(XmlElement& element) {
    if (!Take("<")) return false;
    element.name = Name();
    if (element.name.empty()) return false;
    while (true) {
      SkipSpace();
      if (Take("/>")) return true;
      if (Take(">")) break;
      const std::string name = Name();
      std::string value;
      if (name.empty() || !Take("=\"") || !Data('"', value) || !Take("\""))
        return false;
      if (!element.attributes.emplace(name, value).second) return false;
    }
    while (true) {
      if (!Data('<', element.text)) return false;
      if (Take("</")) return Name() == element.name && Take(">");
      XmlElement child;
      if (!Element(child)) return false;
      element.children.push_back(child);
    }
  }

  const std::string& text_;
  size_t at_ = 0;
};

}  // namespace hone

#endif  // HONE_TESTS_SERVICE_CLI_XML_READER_H_
