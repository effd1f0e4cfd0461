#include "compare/foreign/numpy_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include "compare/foreign/dtypes.h"
#include "compare/foreign/json_reader.h"

namespace tdump::compare::foreign {
namespace {

constexpr char kMagic[] = "\x93NUMPY";
constexpr size_t kMagicBytes = 6;
constexpr uint64_t kMaxHeader = 1 << 20;
constexpr size_t kMaxDims = 64;

struct Header {
  std::string descr;  // empty: not a text, as of structured dtypes
  bool fortran_order = false;
  std::vector<int64_t> shape;
};

// The header is a Python dictionary of literals: {'descr': '<f4', 'fortran_order': False, 'shape':
// (3, 4), }.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  // False: not such a dictionary.
  bool Parse(Header* header) {
    if (!Take('{')) return false;
    bool descr = false, order = false, shape = false;
    while (!Take('}')) {
      std::string key;
      if (!Text(&key) || !Take(':')) return false;
      if (key == "descr" && !descr) {
        descr = Descr(&header->descr);
        if (!descr) return false;
        if (header->descr.empty()) return true;  // nothing more is needed to refuse it
      } else if (key == "fortran_order" && !order) {
        order = Boolean(&header->fortran_order);
      } else if (key == "shape" && !shape) {
        shape = Shape(&header->shape);
      } else {
        return false;
      }
      if (!Take(',') && Next() != '}') return false;
    }
    Space();
    return descr && order && shape && text_.empty();
  }

 private:
  void Space() {
    while (!text_.empty() && std::strchr(" \t\r\n", text_.front()) != nullptr &&
           text_.front() != '\0')
      text_.remove_prefix(1);
  }
  char Next() {
    Space();
    return text_.empty() ? '\0' : text_.front();
  }
  bool Take(char wanted) {
    if (Next() != wanted) return false;
    text_.remove_prefix(1);
    return true;
  }
  bool Word(std::string_view word) {
    Space();
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }
  bool Text(std::string* text) {
    const char quote = Next();
    if (quote != '\'' && quote != '"') return false;
    const size_t end = text_.find(quote, 1);
    if (end == std::string_view::npos) return false;
    *text = text_.substr(1, end - 1);
    text_.remove_prefix(end + 1);
    return text->find('\\') == std::string::npos;
  }
  bool Descr(std::string* descr) {
    if (Next() == '[' || Next() == '(') return true;
    return Text(descr) && !descr->empty();
  }
  bool Boolean(bool* value) {
    *value = Word("True");
    return *value || Word("False");
  }
  bool Shape(std::vector<int64_t>* shape) {
    if (!Take('(')) return false;
    while (!Take(')')) {
      int64_t size = 0;
      if (!Number(&size) || shape->size() == kMaxDims) return false;
      shape->push_back(size);
      if (!Take(',') && Next() != ')') return false;
    }
    return true;
  }
  bool Number(int64_t* number) {
    Space();
    size_t digits = 0;
    while (digits < text_.size() && text_[digits] >= '0' && text_[digits] <= '9') {
      if (__builtin_mul_overflow(*number, int64_t{10}, number) ||
          __builtin_add_overflow(*number, int64_t{text_[digits] - '0'}, number))
        return false;
      ++digits;
    }
    text_.remove_prefix(digits);
    if (digits > 0) Word("L");  // as Python 2 wrote it
    return digits > 0;
  }

  std::string_view text_;
};

Result<Header> ReadHeader(const Bytes& file, uint64_t* data) {
  const auto bad = [&](const std::string& what) {
    return Corrupt(fmt::format("'{}': {}", file->name(), what));
  };
  ByteReader reader(file, 0, file->size());
  std::array<std::byte, kMagicBytes + 2> start;
  TDUMP_RETURN_IF_ERROR(reader.Read(start));
  if (std::memcmp(start.data(), kMagic, kMagicBytes) != 0) return bad("not a .npy file");
  const int version = std::to_integer<int>(start[kMagicBytes]);
  if (version < 1 || version > 3)
    return Unsupported(fmt::format("'{}': .npy format version {}; versions 1 to 3 can be read",
                                   file->name(), version));
  std::array<std::byte, 4> length{};
  TDUMP_RETURN_IF_ERROR(reader.Read(std::span(length).first(version == 1 ? 2 : 4)));
  TDUMP_ASSIGN_OR_RETURN(const std::string text,
                         reader.ReadText(Little32(length.data()), kMaxHeader));
  *data = reader.offset();
  Header header;
  if (!HeaderParser(text).Parse(&header))
    return bad(
        fmt::format("offset {}: the header is not what NumPy writes, as {{'descr': '<f4', "
                    "'fortran_order': False, 'shape': (3, 4), }}",
                    *data - text.size()));
  return header;
}

void SetStrides(bool fortran_order, ForeignTensor* tensor) {
  if (!fortran_order) {
    tensor->strides = ContiguousStrides(tensor->sizes);
    return;
  }
  std::vector<int64_t> sizes(tensor->sizes.rbegin(), tensor->sizes.rend());
  tensor->strides = ContiguousStrides(sizes);
  std::reverse(tensor->strides.begin(), tensor->strides.end());
}

// `open` gives the whole .npy file again, for one thread. `torch_name`: of the dtype; "" unknown.
Result<ForeignTensor> ReadMember(const Bytes& file, const OpenBytes& open,
                                 std::string_view torch_name = "") {
  uint64_t data = 0;
  TDUMP_ASSIGN_OR_RETURN(const Header header, ReadHeader(file, &data));
  const std::optional<NumpyDType> dtype = ParseNumpyDType(header.descr, torch_name);
  if (!dtype) {
    return Unsupported(fmt::format(
        "'{}': dtype {} cannot be compared; numbers of NumPy's own (f2 to f8, c8, c16, i1 to i8, "
        "u1 to u8, b1) can",
        file->name(), header.descr.empty() ? "is structured, which" : header.descr));
  }
  ForeignTensor tensor{
      .dtype = dtype->dtype, .sizes = header.shape, .big_endian = dtype->big_endian};
  SetStrides(header.fortran_order, &tensor);
  tensor.storage_bytes = file->size() - data;
  TDUMP_RETURN_IF_ERROR(CheckView(tensor).Annotate(file->name()));
  if (CanonicalBytes(tensor) != tensor.storage_bytes)
    return Corrupt(fmt::format("'{}' has {} bytes of data, its dtype and shape need {}",
                               file->name(), tensor.storage_bytes, CanonicalBytes(tensor)));
  tensor.open = [open, data]() -> Result<Bytes> {
    TDUMP_ASSIGN_OR_RETURN(Bytes whole, open());
    const uint64_t bytes = whole->size() - data;
    return PartOf(std::move(whole), data, bytes);
  };
  return tensor;
}

constexpr std::string_view kSuffix = ".npy";
constexpr uint64_t kMostText = uint64_t{64} << 20;  // characters of the text of an export

// The text that tdump-export adds, a JSON object: torch's names of the dtypes, by member. Null:
// there is none.
const ZipMember* FindDTypes(const ZipArchive& archive) {
  const ZipMember* const member = archive.Find("dtypes.npy");
  if (member == nullptr) return nullptr;
  uint64_t data = 0;
  const Bytes file = archive.OpenUnverified(*member);
  const Result<Header> header = ReadHeader(file, &data);
  const bool is_text = header.ok() && header->descr.starts_with("<U") && header->shape.empty();
  std::array<std::byte, 4> first;
  const bool is_object =
      is_text && file->ReadAt(data, first).ok() && Little32(first.data()) == uint32_t{'{'};
  return is_object ? member : nullptr;
}

using DTypeNames = std::map<std::string, std::string, std::less<>>;

// NumPy writes four bytes a character; JSON of Python has none beyond ASCII.
Result<DTypeNames> ReadDTypes(const Bytes& file) {
  uint64_t data = 0;
  TDUMP_RETURN_IF_ERROR(ReadHeader(file, &data).status());
  ByteReader reader(file, data, file->size());
  const uint64_t characters = reader.left() / 4;
  if (characters > kMostText)
    return Unsupported(fmt::format("'{}': a text of {} characters", file->name(), characters));
  std::string text;
  for (uint64_t i = 0; i < characters; ++i) {
    std::array<std::byte, 4> character;
    TDUMP_RETURN_IF_ERROR(reader.Read(character));
    const uint32_t code = Little32(character.data());
    if (code == 0 || code > 0x7F) return reader.Error("expected JSON in ASCII");
    text += static_cast<char>(code);
  }
  JsonReader json(FromText(file->name(), std::move(text)));
  DTypeNames names;
  TDUMP_RETURN_IF_ERROR(json.ReadObject([&](const std::string& name) -> Status {
    TDUMP_ASSIGN_OR_RETURN(names[name], json.ReadText());
    return {};
  }));
  TDUMP_RETURN_IF_ERROR(json.ExpectEnd());
  return names;
}

}  // namespace

bool LooksLikeNpy(const ByteSource& file) {
  std::array<std::byte, kMagicBytes> start;
  return file.ReadAt(0, start).ok() && std::memcmp(start.data(), kMagic, kMagicBytes) == 0;
}

Result<ForeignTensor> ReadNpy(Bytes file) {
  return ReadMember(file, [file] { return Result<Bytes>(file); });
}

Result<ForeignFile> ReadNpz(std::shared_ptr<const ZipArchive> archive) {
  ForeignFile all;
  const ZipMember* const dtypes = FindDTypes(*archive);
  DTypeNames names;
  if (dtypes != nullptr) {
    TDUMP_ASSIGN_OR_RETURN(const Bytes text, archive->OpenMember(*dtypes));
    TDUMP_ASSIGN_OR_RETURN(names, ReadDTypes(text));
  }
  for (const ZipMember& member : archive->members()) {
    if (!member.name.ends_with(kSuffix)) {
      all.skipped.push_back(fmt::format("'{}': not a .npy member", member.name));
      continue;
    }
    if (&member == dtypes) continue;
    const std::string name = member.name.substr(0, member.name.size() - kSuffix.size());
    const auto known = names.find(name);
    const OpenBytes open = [archive, at = &member] { return archive->OpenMember(*at); };
    Result<ForeignTensor> tensor = ReadMember(archive->OpenUnverified(member), open,
                                              known == names.end() ? "" : known->second);
    if (!tensor.ok() && tensor.status().code() != StatusCode::kUnsupported)
      return std::move(tensor).status();
    if (!tensor.ok()) {
      all.skipped.push_back(fmt::format("'{}': {}", member.name, tensor.status().message()));
      continue;
    }
    tensor->place = {name};
    tensor->storage = all.tensors.size();
    all.tensors.push_back(std::move(*tensor));
  }
  return all;
}

}  // namespace tdump::compare::foreign
