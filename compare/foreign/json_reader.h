// JsonReader: JSON (RFC 8259) read value by value, in bounded memory whatever the text's size. Also
// takes NaN, Infinity and -Infinity, which Python writes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "compare/foreign/byte_source.h"

namespace tdump::compare::foreign {

// Not thread-safe. Errors: kCorrupt, with the offset. After an error nothing more can be read.
class JsonReader {
 public:
  enum class Kind : uint8_t { kObject, kArray, kText, kNumber, kBool, kNull };

  explicit JsonReader(Bytes source) : JsonReader(source, 0, source->size()) {}
  JsonReader(Bytes source, uint64_t begin, uint64_t end) : reader_(std::move(source), begin, end) {}

  Result<Kind> NextKind();
  // `visit` reads the one value of each key, or element.
  Status ReadObject(const std::function<Status(const std::string& key)>& visit);
  Status ReadArray(const std::function<Status()>& visit);
  Result<std::string> ReadText();
  Result<int64_t> ReadInteger();
  Result<double> ReadNumber();  // also NaN, Infinity and -Infinity
  Status Skip();                // any value
  // Error unless only white space is left.
  Status ExpectEnd();
  Status Error(const std::string& what) const { return reader_.Error(what); }

 private:
  Status SkipSpace();
  Result<bool> Take(char wanted);
  Status Expect(char wanted);
  Status ReadList(char close, const std::function<Status()>& item);
  Status ReadEscape(std::string* text);
  Result<uint32_t> ReadHex4();
  Result<std::string> ReadWord();

  ByteReader reader_;
  int depth_ = 0;
};

}  // namespace tdump::compare::foreign
