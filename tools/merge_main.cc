#include "tools/merge_command.h"

int main(int argc, char** argv) { return tdump::tools::MergeCommand().Run(argc, argv); }
