// Settings of Rule that are more than one member read as it stands. Private to filters; used by the
// table in rule_schema.cc.
#pragma once

#include <string>

#include "filters/config.h"
#include "filters/reader.h"

namespace tdump::filters {

void ReadRoles(Reader& r, const Setting& s, Rule* rule);
void ReadPhases(Reader& r, const Setting& s, Rule* rule);
void ReadDtypes(Reader& r, const Setting& s, Rule* rule);
void ReadMax(Reader& r, const Setting& s, Rule* rule);
void ReadWhere(Reader& r, const Setting& s, Rule* rule);
void ReadLevel(Reader& r, const Setting& s, Rule* rule);
void ReadRuleCompress(Reader& r, const Setting& s, Rule* rule);
std::string PrintRuleCompress(const Rule& rule);
void ReadDims(Reader& r, const Setting& s, Rule* rule);
std::string PrintRoles(const Rule& rule);
std::string PrintPhases(const Rule& rule);
void ReadUse(Reader& r, const Setting& s, Rule* rule);
std::string PrintUse(const Rule& rule);
void ReadLeaf(Reader& r, const Setting& s, Rule* rule);
std::string PrintLeaf(const Rule& rule);
std::string PrintMax(const Rule& rule);
void ReadRuleRanks(Reader& r, const Setting& s, Rule* rule);
std::string PrintLevelOf(const Rule& rule);

}  // namespace tdump::filters
