// `Side`, the front end over whose tensors the tests of what front ends share are compiled: that of LibTorch in a
// program that links it, and one of numbers elsewhere. Brings Catch2.
#pragma once

#ifdef STEPWATCH_TEST_LIBTORCH
#include "tests/front_ends/torch/torch_side.h"
#else
#include "tests/front_ends/shared/number_side.h"
#endif
