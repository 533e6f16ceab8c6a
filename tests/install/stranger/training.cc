// The lines of README in a program.
#include <stepwatch/torch.h>
namespace nn = stepwatch::nn;

int main() {
  auto model = torch::nn::Sequential(nn::Linear(4, 4), nn::ReLU());
  const torch::optim::AdamWOptions options(1e-3);
  stepwatch::Watched<torch::optim::AdamW> optimizer(model->parameters(), options);
  stepwatch::TorchMonitor monitor("config.json");
  monitor.Attach(*model, optimizer);
  model->forward(torch::ones({2, 4})).sum().backward();
  optimizer.step();
}
