#include "settings/yaml_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <utility>

#include "core/utf8.h"

namespace tdump::settings {
namespace {

// Thrown through yaml-cpp's parser and caught in ParseYaml: the document goes beyond a bound.
struct Refused {
  Position at;
  std::string what;
};

// A line may be as long as the text, and every node asks for its column: what comes before it is
// counted in strides, so that no line costs more than its length.
class Lines {
 public:
  explicit Lines(std::string_view text) : text_(text) {
    for (size_t start = 0; start <= text.size();) {
      const size_t end = std::min(text.find('\n', start), text.size());
      lines_.push_back(text.substr(start, end - start));
      start = end + 1;
    }
    for (size_t start = 0; start < text.size(); start += kStride)
      characters_.push_back(characters_.back() + CharactersIn(text.substr(start, kStride)));
  }
  // yaml-cpp counts from 0, columns in bytes.
  Position At(const YAML::Mark& mark) const {
    if (mark.is_null()) return {};
    const std::string_view line = Rest(mark.line, 0);
    const size_t start = line.empty() ? 0 : static_cast<size_t>(line.data() - text_.data());
    const size_t column = std::min(line.size(), static_cast<size_t>(mark.column));
    return {mark.line + 1, static_cast<int>(Characters(start + column) - Characters(start)) + 1};
  }
  std::string_view Rest(int line, int column) const {
    if (line < 0 || static_cast<size_t>(line) >= lines_.size()) return {};
    const std::string_view text = lines_[line];
    return text.substr(std::min<size_t>(text.size(), column));
  }
  // The text from there on.
  std::string_view From(const YAML::Mark& mark) const {
    const std::string_view rest = Rest(mark.line, mark.column);
    return rest.empty() ? rest : text_.substr(static_cast<size_t>(rest.data() - text_.data()));
  }

 private:
  static constexpr size_t kStride = 64;

  // Before this byte of the text.
  size_t Characters(size_t bytes) const {
    const size_t stride = bytes / kStride;
    return characters_[stride] +
           CharactersIn(text_.substr(stride * kStride, bytes - stride * kStride));
  }

  std::string_view text_;
  std::vector<std::string_view> lines_;
  std::vector<size_t> characters_{0};  // before each stride
};

class TreeBuilder final : public YAML::EventHandler {
 public:
  TreeBuilder(const Lines* lines, Mistakes* mistakes) : lines_(lines), mistakes_(mistakes) {}
  YamlPtr root() const { return root_; }
  const YAML::Mark& last_scalar() const { return last_scalar_; }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    auto node = Make(YamlNode::Kind::kNull, mark);
    node->text = NullText(mark);
    Finish(std::move(node), anchor);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto it = anchors_.find(anchor);
    if (it == anchors_.end()) throw Refused{lines_->At(mark), "an alias inside its own anchor"};
    Attach(it->second, lines_->At(mark));
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    CheckTag(mark, tag);
    last_scalar_ = mark;
    auto node = Make(YamlNode::Kind::kScalar, mark);
    node->text = value;
    node->weight = 1 + value.size() / 32;
    Finish(std::move(node), anchor);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(YamlNode::Kind::kSequence, mark, tag, anchor);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Open(YamlNode::Kind::kMap, mark, tag, anchor);
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapEnd() override { Close(); }

 private:
  struct Level {
    std::shared_ptr<YamlNode> node;
    YAML::anchor_t anchor;
    YamlPtr key;  // of a map, between key and value
    std::map<std::string, int> lines;
  };

  std::shared_ptr<YamlNode> Make(YamlNode::Kind kind, const YAML::Mark& mark) const {
    auto node = std::make_shared<YamlNode>();
    node->kind = kind;
    node->at = lines_->At(mark);
    return node;
  }

  // yaml-cpp does not say how a null was written, and gives a left-out
  // value the mark of what follows it.
  std::string NullText(const YAML::Mark& mark) const {
    const std::string_view rest = lines_->Rest(mark.line, mark.column);
    for (std::string_view word : {"~", "null", "Null", "NULL"}) {
      if (!rest.starts_with(word)) continue;
      const std::string_view after = rest.substr(word.size());
      if (after.empty() || std::string_view(" \t\r,]}:").find(after[0]) != std::string_view::npos) {
        return std::string(word);
      }
    }
    return "";
  }

  // yaml-cpp gives what is written without a tag "?", or "!" when it is quoted.
  void CheckTag(const YAML::Mark& mark, const std::string& tag) {
    if (tag.empty() || tag == "?" || tag == "!") return;
    mistakes_->Add(lines_->At(mark), "tag '" + Printable(tag) + "' has no meaning here", "no tag");
  }

  void Open(YamlNode::Kind kind, const YAML::Mark& mark, const std::string& tag,
            YAML::anchor_t anchor) {
    CheckTag(mark, tag);
    if (stack_.size() >= static_cast<size_t>(kMaxYamlDepth)) {
      throw Refused{lines_->At(mark),
                    "nested deeper than " + std::to_string(kMaxYamlDepth) + " levels"};
    }
    stack_.push_back({Make(kind, mark), anchor, nullptr, {}});
  }

  void Close() {
    Level level = std::move(stack_.back());
    stack_.pop_back();
    Finish(std::move(level.node), level.anchor);
  }

  void Finish(std::shared_ptr<YamlNode> node, YAML::anchor_t anchor) {
    const Position at = node->at;
    if (anchor != 0) anchors_[anchor] = node;
    Attach(std::move(node), at);
  }

  void Attach(YamlPtr node, Position at) {
    if (stack_.empty()) {
      root_ = std::move(node);
      return;
    }
    Level& level = stack_.back();
    level.node->weight += node->weight;
    total_ += node->weight;
    if (total_ > kMaxYamlWeight * kMaxYamlDepth || level.node->weight > kMaxYamlWeight) {
      throw Refused{at,
                    "more than " + std::to_string(kMaxYamlWeight) + " values, aliases expanded"};
    }
    if (level.node->is_sequence()) {
      level.node->items.push_back(std::move(node));
    } else if (level.key == nullptr) {
      level.key = std::move(node);
    } else {
      AddEntry(&level, std::move(node));
    }
  }

  void AddEntry(Level* level, YamlPtr value) {
    const YamlPtr key = std::exchange(level->key, nullptr);
    if (!key->is_text()) {
      mistakes_->Add(key->at, "a key that is not text", "a name before the colon");
      return;
    }
    const auto [first, added] = level->lines.try_emplace(key->text, key->at.line);
    if (!added) {
      mistakes_->Add(key->at,
                     "'" + Printable(key->text) + "' is given twice, first in line " +
                         std::to_string(first->second) + ", again in line " +
                         std::to_string(key->at.line),
                     "each key once");
      return;
    }
    if (value->kind == YamlNode::Kind::kNull && value->text.empty()) {
      auto missing = std::make_shared<YamlNode>();
      missing->at = key->at;
      value = std::move(missing);
    }
    level->node->entries.push_back({key->text, key->at, std::move(value)});
  }

  const Lines* lines_;
  Mistakes* mistakes_;
  std::vector<Level> stack_;
  std::map<YAML::anchor_t, YamlPtr> anchors_;
  YamlPtr root_;
  YAML::Mark last_scalar_ = YAML::Mark::null_mark();
  size_t total_ = 0;
};

// A scalar that begins, behind an anchor and a tag, with a quote that never ends. yaml-cpp takes it
// for closed where the text ends with a line end; so it is the last one.
bool HasOpenQuote(std::string_view text) {
  const auto skip = [&](const char* characters, bool of_them) {
    const size_t end =
        of_them ? text.find_first_not_of(characters) : text.find_first_of(characters);
    text.remove_prefix(std::min(end, text.size()));
  };
  while (text.starts_with('&') || text.starts_with('!')) {
    skip(" \t\r\n", false);
    skip(" \t\r\n", true);
  }
  if (!text.starts_with('\'') && !text.starts_with('"')) return false;
  const char quote = text[0];
  for (size_t i = 1; i < text.size(); ++i) {
    const bool doubled = quote == '\'' && text.substr(i).starts_with("''");
    if (doubled || (quote == '"' && text[i] == '\\'))
      ++i;
    else if (text[i] == quote)
      return false;
  }
  return true;
}

// What to do about an error of the YAML text itself.
std::string Hint(const std::string& message, std::string_view line) {
  if (message.find("escape") != std::string::npos) {
    return "; a backslash is special in double quotes: use single quotes for regexes, '...'";
  }
  if (message.find("flow") != std::string::npos && line.find("slice[") != std::string_view::npos)
    return "; inside braces a slice is put in quotes: level: 'slice[0:8]'";
  if (line.find('\t') != std::string_view::npos) return "; a tab cannot indent YAML: use spaces";
  return "";
}

bool CheckBytes(std::string_view text, Mistakes* mistakes) {
  if (text.size() > kMaxYamlBytes) {
    mistakes->Add({}, std::to_string(text.size()) + " bytes",
                  "at most " + std::to_string(kMaxYamlBytes) + " bytes");
    return false;
  }
  size_t bad = FirstInvalidUtf8(text);
  bad = std::min(bad, text.find('\0'));
  if (bad == std::string_view::npos) return true;
  const std::string_view before = text.substr(0, bad);
  const size_t newline = before.rfind('\n');
  const std::string_view line =
      newline == std::string_view::npos ? before : before.substr(newline + 1);
  const int line_number = 1 + static_cast<int>(std::count(before.begin(), before.end(), '\n'));
  mistakes->Add({line_number, static_cast<int>(CharactersIn(line)) + 1},
                text[bad] == '\0' ? "a zero byte" : "bytes that are not UTF-8", "UTF-8 text");
  return false;
}

YamlPtr EmptyMap() {
  auto node = std::make_shared<YamlNode>();
  node->kind = YamlNode::Kind::kMap;
  return node;
}

YamlPtr ParseDocument(std::string_view text, const Lines& lines, Mistakes* mistakes) {
  std::istringstream in{std::string(text)};
  YAML::Parser parser(in);
  TreeBuilder builder(&lines, mistakes);
  if (!parser.HandleNextDocument(builder)) return EmptyMap();
  TreeBuilder second(&lines, mistakes);
  if (parser.HandleNextDocument(second)) {
    mistakes->Add(second.root() ? second.root()->at : Position{}, "a second document",
                  "one document per file");
  }
  if (HasOpenQuote(lines.From(builder.last_scalar()))) {
    mistakes->Add(lines.At(builder.last_scalar()), "not YAML: a quote that is not closed");
  }
  const YamlPtr root = builder.root();
  return root == nullptr || (root->kind == YamlNode::Kind::kNull && root->text.empty()) ? EmptyMap()
                                                                                        : root;
}

}  // namespace

YamlPtr ParseYaml(std::string_view text, Mistakes* mistakes) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  if (!CheckBytes(text, mistakes)) return nullptr;
  const Lines lines(text);
  try {
    const YamlPtr root = ParseDocument(text, lines, mistakes);
    return mistakes->empty() ? root : nullptr;
  } catch (const Refused& refused) {
    mistakes->Add(refused.at, refused.what, "a configuration that a person could read");
  } catch (const YAML::Exception& error) {
    const std::string_view line = lines.Rest(error.mark.line, 0);
    mistakes->Add(lines.At(error.mark), "not YAML: " + error.msg + Hint(error.msg, line));
  } catch (const std::exception& error) {
    mistakes->Add({}, std::string("not YAML: ") + error.what());
  }
  return nullptr;
}

}  // namespace tdump::settings
