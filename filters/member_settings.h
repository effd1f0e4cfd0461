// Reading and printing a setting that is one member of Config or Rule: what most keys need. Private
// to filters; instantiated in the tables of schema.cc and rule_schema.cc.
#pragma once

#include <string>

#include "filters/schema.h"
#include "filters/units.h"

namespace tdump::filters {

template <auto kMember>
struct MemberOf;
template <class T, class V, V T::*kMember>
struct MemberOf<kMember> {
  using Owner = T;
};
template <auto kMember>
using OwnerOf = typename MemberOf<kMember>::Owner;

template <auto kMember>
void ReadBool(Reader& r, const Setting& s, OwnerOf<kMember>* out) {
  r.Bool(s, &(out->*kMember));
}
template <auto kMember>
std::string PrintBool(const OwnerOf<kMember>& from) {
  return from.*kMember ? "true" : "false";
}

template <auto kMember>
void ReadOnOff(Reader& r, const Setting& s, OwnerOf<kMember>* out) {
  r.OnOff(s, &(out->*kMember));
}
template <auto kMember>
std::string PrintOnOff(const OwnerOf<kMember>& from) {
  return from.*kMember ? "on" : "off";
}

template <auto kMember>
void ReadTri(Reader& r, const Setting& s, OwnerOf<kMember>* out) {
  r.AutoOnOff(s, &(out->*kMember));
}
template <auto kMember>
std::string PrintTri(const OwnerOf<kMember>& from) {
  constexpr const char* kWords[] = {"auto", "on", "off"};
  return kWords[static_cast<int>(from.*kMember)];
}

// Indices; of ranks also from the end.
template <auto kMember, bool kFromEnd = false>
void ReadIndices(Reader& r, const Setting& s, OwnerOf<kMember>* out) {
  r.Specification(s, kFromEnd, &(out->*kMember));
}
template <auto kMember>
std::string PrintIndices(const OwnerOf<kMember>& from) {
  return PrintSpec(from.*kMember);
}

template <auto kMember>
void ReadRegexes(Reader& r, const Setting& s, OwnerOf<kMember>* out) {
  r.Regexes(s, &(out->*kMember));
}
template <auto kMember>
std::string PrintList(const OwnerOf<kMember>& from) {
  return PrintTexts(from.*kMember);
}

// Text where empty stands for `none`.
template <auto kMember>
std::string PrintOrNone(const OwnerOf<kMember>& from) {
  return (from.*kMember).empty() ? "none" : YamlScalar(from.*kMember);
}
template <auto kMember>
std::string PrintText(const OwnerOf<kMember>& from) {
  return YamlScalar(from.*kMember);
}

template <auto kMember>
std::string PrintNumber(const OwnerOf<kMember>& from) {
  return std::to_string(from.*kMember);
}

// Bytes where 0 stands for `auto`.
template <auto kMember>
std::string PrintBytesOrAuto(const OwnerOf<kMember>& from) {
  return from.*kMember == 0 ? "auto" : FormatBytes(from.*kMember);
}

}  // namespace tdump::filters
