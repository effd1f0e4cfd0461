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
std::string PrintIfExists(const Config& c);
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
std::string PrintFullArena(const Config& c);
void ReadMaxBlock(Reader& r, const Setting& s, Config* c);
std::string PrintMaxBlock(const Config& c);
void ReadDrain(Reader& r, const Setting& s, Config* c);
std::string PrintDrain(const Config& c);
void ReadLog(Reader& r, const Setting& s, Config* c);
void ReadAtLimit(Reader& r, const Setting& s, Config* c);
std::string PrintAtLimit(const Config& c);
void ReadLayout(Reader& r, const Setting& s, Config* c);
std::string PrintLayout(const Config& c);
void ReadDurability(Reader& r, const Setting& s, Config* c);
std::string PrintDurability(const Config& c);
void ReadDirect(Reader& r, const Setting& s, Config* c);
std::string PrintDirect(const Config& c);
void ReadKernels(Reader& r, const Setting& s, Config* c);
std::string PrintKernels(const Config& c);
void ReadCrumbRanks(Reader& r, const Setting& s, Config* c);
void ReadCrumbDir(Reader& r, const Setting& s, Config* c);
std::string PrintCrumbDir(const Config& c);
void ReadProfile(Reader& r, const Setting& s, Config*);
void ReadCompileCache(Reader& r, const Setting& s, Config* c);
std::string PrintCompileCache(const Config& c);
void ReadRecompute(Reader& r, const Setting& s, Config* c);
std::string PrintRecompute(const Config& c);
void ReadCaptureSets(Reader& r, const Setting& s, Config* c);

}  // namespace tdump::filters
