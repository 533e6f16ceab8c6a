// The LibTorch front end, for user programs:
//
//   #include <stepwatch/torch.h>
//   namespace nn = stepwatch::nn;                                                            // was torch::nn
//   stepwatch::Watched<torch::optim::AdamW> optimizer(model->parameters(), options);         // was torch::optim::AdamW
//   stepwatch::TorchMonitor monitor("config.json");
//   monitor.Attach(*model, optimizer);
//
// The only public header with third-party types. C++17.
#pragma once

#include <torch/nn.h>
#include <torch/optim.h>

#include "stepwatch/torch/modules.h"
#include "stepwatch/torch/torch_monitor.h"
#include "stepwatch/torch/watched_module.h"
#include "stepwatch/torch/watched_optimizer.h"
