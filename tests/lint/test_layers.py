"""The include lint says no where it must."""

from layers import offences


def test_core_may_not_include_io():
    assert offences("core/a.h", '#include "io/format.h"') == ["core/a.h:1: core/ may not include io/format.h"]


def test_compare_may_not_see_torch():
    assert offences("compare/a.cc", "\n#include <ATen/ATen.h>") == ["compare/a.cc:2: compare/ may not see ATen/ATen.h"]
    assert offences("io/a.cc", "#include <mpi.h>") == ["io/a.cc:1: io/ may not see mpi.h"]


def test_what_the_design_allows_passes():
    assert offences("launch/a.cc", '#include "coordinator/merge.h"\n#include <vector>') == []
    assert offences("coordinator/mpi/transport.cc", "#include <mpi.h>") == []
    assert offences("collectors/torch/a.cc", "#include <ATen/ATen.h>") == []
