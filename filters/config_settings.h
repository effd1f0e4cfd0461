// Settings of Config that are more than one member read as it stands. Private to filters; used by
// the table in schema.cc.
#pragma once

#include <string>

#include "filters/config.h"
#include "filters/reader.h"

namespace tdump::filters {

void ReadVersion(Reader& r, const Setting& s, Config* c);
void ReadDir(Reader& r, const Setting& s, Config* c);
void ReadIfExists(Reader& r, const Setting& s, Config* c);
void ReadLimit(Reader& r, const Setting& s, Config* c);
void ReadCompress(Reader& r, const Setting& s, Config* c);
std::string PrintCompress(const Config& c);
void ReadMode(Reader& r, const Setting& s, Config* c);
std::string PrintMode(const Config& c);
void ReadBoundary(Reader& r, const Setting& s, Config* c);
void ReadFirst(Reader& r, const Setting& s, Config* c);
std::string PrintFirst(const Config& c);
void ReadSkip(Reader& r, const Setting& s, Config* c);
void ReadRanks(Reader& r, const Setting& s, Config* c);
void ReadRoots(Reader& r, const Setting& s, Config* c);
std::string PrintRoots(const Config& c);
void ReadFilters(Reader& r, const Setting& s, Config* c);
void ReadHost(Reader& r, const Setting& s, Config* c);
void ReadDevice(Reader& r, const Setting& s, Config* c);
void ReadFullArena(Reader& r, const Setting& s, Config* c);
void ReadMaxBlock(Reader& r, const Setting& s, Config* c);
void ReadDrain(Reader& r, const Setting& s, Config* c);
void ReadLog(Reader& r, const Setting& s, Config* c);

}  // namespace tdump::filters
