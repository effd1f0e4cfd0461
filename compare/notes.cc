#include "compare/notes.h"

#include "compare/packer.h"

namespace tdump::compare {

Notes::Notes(List notes) {
  if (!notes.empty()) word_ = reinterpret_cast<uintptr_t>(new List(std::move(notes)));
}

Notes::List Notes::Copy() const {
  if (file_ == nullptr) return word_ == 0 ? List() : *list();
  const std::string bytes = file_->Get(word_);
  List notes;
  if (bytes.empty()) return notes;  // which the file tells
  Unpacker unpacker(bytes);
  unpacker(notes);
  return notes;
}

const Notes::List& Notes::Loaded() const {
  static const List none;
  if (file_ != nullptr) {
    List* const loaded = new List(Copy());
    file_ = nullptr;
    word_ = reinterpret_cast<uintptr_t>(loaded);
  }
  return word_ == 0 ? none : *list();
}

void Notes::push_back(std::string note) {
  if (empty()) {
    *this = Notes(List{std::move(note)});
    return;
  }
  (void)Loaded();
  list()->push_back(std::move(note));
}

void Notes::MoveTo(SpillFile* file) {
  if (file == nullptr || file_ != nullptr || word_ == 0) return;
  Packer packer;
  packer(*list());
  const auto place = file->Add(packer.Bytes());
  if (!place) return;
  delete list();
  file_ = file;
  word_ = *place;
}

}  // namespace tdump::compare
