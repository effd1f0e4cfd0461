#include "compare/notes.h"

#include "compare/packer.h"

namespace tdump::compare {

std::string Packing<std::vector<std::string>>::Pack(const std::vector<std::string>& notes) {
  if (notes.empty()) return "";
  Packer packer;
  packer(notes);
  return packer.Bytes();
}

std::vector<std::string> Packing<std::vector<std::string>>::Unpack(std::string_view bytes) {
  std::vector<std::string> notes;
  if (bytes.empty()) return notes;
  Unpacker unpacker(bytes);
  unpacker(notes);
  return notes;
}

}  // namespace tdump::compare
