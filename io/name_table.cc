#include "io/name_table.h"

#include <fmt/format.h>

#include <algorithm>

namespace tdump::io {

Status NameTable::Add(const NameSection& section) {
  if (section.name == 0) return Corrupt("name: 0 is reserved for the empty text");
  const auto [place, is_new] = names_.emplace(section.name, section.text);
  if (is_new || place->second == section.text) return Status::Ok();
  return Corrupt(fmt::format("name: {} is given twice, with different texts", section.name));
}

Status NameTable::Add(const OperatorSection& section) {
  OperatorInfo info;
  info.kind = static_cast<OperatorKind>(section.kind);
  info.leaf = section.leaf != 0;
  const auto resolve = [&](uint32_t id, const char* field, std::string* text) -> Status {
    TDUMP_ASSIGN_OR_RETURN(const std::string* name, Name(id, field));
    *text = *name;
    return Status::Ok();
  };
  TDUMP_RETURN_IF_ERROR(resolve(section.root_name, "root_name", &info.root));
  TDUMP_RETURN_IF_ERROR(resolve(section.path_name, "path_name", &info.path));
  TDUMP_RETURN_IF_ERROR(resolve(section.op_name, "op_name", &info.op));
  TDUMP_RETURN_IF_ERROR(resolve(section.class_name, "class_name", &info.cls));
  for (uint32_t alias : section.alias_names) {
    TDUMP_RETURN_IF_ERROR(resolve(alias, "alias_names", &info.aliases.emplace_back()));
  }
  const auto [place, is_new] = operators_.emplace(section.op_id, info);
  if (is_new || place->second == info) return Status::Ok();
  return Corrupt(fmt::format("op_id: {} is given twice, for different operators", section.op_id));
}

Status NameTable::Add(const AliasSection& section) {
  const auto op = operators_.find(section.op_id);
  if (op == operators_.end())
    return Corrupt(fmt::format("op_id: {} has no operator frame before it", section.op_id));
  TDUMP_ASSIGN_OR_RETURN(const std::string* path, Name(section.path_name, "path_name"));
  std::vector<std::string>& aliases = op->second.aliases;
  if (std::find(aliases.begin(), aliases.end(), *path) == aliases.end()) aliases.push_back(*path);
  return Status::Ok();
}

Result<const std::string*> NameTable::Name(uint32_t id, const char* field) const {
  static const std::string kEmpty;
  if (id == 0) return &kEmpty;
  const auto name = names_.find(id);
  if (name != names_.end()) return &name->second;
  return Corrupt(fmt::format("{}: {} has no name frame before it", field, id));
}

Result<const OperatorInfo*> NameTable::Operator(uint32_t id) const {
  const auto op = operators_.find(id);
  if (op != operators_.end()) return &op->second;
  return Corrupt(fmt::format("op_id: {} has no operator frame before it", id));
}

std::shared_ptr<const NameTable> NameTables::Find(const Hash128& content) {
  const std::lock_guard lock(mutex_);
  const auto found = tables_.find(content);
  return found == tables_.end() ? nullptr : found->second.lock();
}

void NameTables::Keep(const Hash128& content, const std::shared_ptr<const NameTable>& table) {
  const std::lock_guard lock(mutex_);
  std::erase_if(tables_, [](const auto& known) { return known.second.expired(); });
  tables_[content] = table;
}

}  // namespace tdump::io
