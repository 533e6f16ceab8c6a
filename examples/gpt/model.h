// A small GPT over bytes: pre-norm blocks, learned positions, 256 tokens.
#pragma once

#include <stepwatch/torch.h>
#include <torch/utils.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace gpt {

namespace nn = stepwatch::nn;  // torch::nn with modules that the monitor can hook

struct ModelOptions {
  int64_t layers = 4;
  int64_t width = 192;
  int64_t heads = 4;
  int64_t context = 128;
};

inline constexpr int64_t kVocabulary = 256;

struct AttentionImpl : nn::Module {
  AttentionImpl(int64_t width, int64_t head_count) : heads(head_count) {
    qkv = register_module("qkv", nn::Linear(width, 3 * width));
    projection = register_module("projection", nn::Linear(width, width));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    const int64_t batch = x.size(0), length = x.size(1), width = x.size(2);
    std::vector<torch::Tensor> parts = qkv(x).split(width, /*dim=*/2);
    for (torch::Tensor& part : parts) part = part.view({batch, length, heads, width / heads}).transpose(1, 2);
    const torch::Tensor mixed = torch::scaled_dot_product_attention(parts[0], parts[1], parts[2], /*attn_mask=*/{},
                                                                    /*dropout_p=*/0.0, /*is_causal=*/true);
    return projection(mixed.transpose(1, 2).reshape({batch, length, width}));
  }

  int64_t heads;
  nn::Linear qkv{nullptr}, projection{nullptr};
};
TORCH_MODULE(Attention);

struct BlockImpl : nn::Module {
  BlockImpl(int64_t width, int64_t heads) {
    norm1 = register_module("norm1", nn::LayerNorm(nn::LayerNormOptions({width})));
    attention = register_module("attention", Attention(width, heads));
    norm2 = register_module("norm2", nn::LayerNorm(nn::LayerNormOptions({width})));
    mlp =
        register_module("mlp", nn::Sequential(nn::Linear(width, 4 * width), nn::GELU(), nn::Linear(4 * width, width)));
  }

  torch::Tensor forward(torch::Tensor x) {
    x = x + attention(norm1(x));
    return x + mlp->forward(norm2(x));
  }

  nn::LayerNorm norm1{nullptr}, norm2{nullptr};
  Attention attention{nullptr};
  nn::Sequential mlp{nullptr};
};
TORCH_MODULE(Block);

struct GptImpl : nn::Module {
  explicit GptImpl(const ModelOptions& options) {
    tokens = register_module("tokens", nn::Embedding(kVocabulary, options.width));
    positions = register_module("positions", nn::Embedding(options.context, options.width));
    layers = register_module("layers", nn::Sequential());
    for (int64_t i = 0; i < options.layers; ++i) layers->push_back(Block(options.width, options.heads));
    norm = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({options.width})));
    head = register_module("head", nn::Linear(nn::LinearOptions(options.width, kVocabulary).bias(false)));
    Initialise(options.layers);
  }

  torch::Tensor forward(const torch::Tensor& text) {
    const torch::Tensor places = torch::arange(text.size(1), torch::kLong);
    return head(norm(layers->forward(tokens(text) + positions(places))));
  }

  // Initialises like GPT-2: normal 0.02, with residual projections that shrink with the depth of the model.
  void Initialise(int64_t layer_count) {
    const torch::NoGradGuard no_grad;
    for (auto& item : named_parameters()) {
      torch::Tensor& parameter = item.value();
      const std::string& name = item.key();
      if (parameter.dim() < 2) continue;
      const bool residual = name.ends_with("projection.weight") || name.ends_with("mlp.2.weight");
      parameter.normal_(0.0, residual ? 0.02 / std::sqrt(2.0 * static_cast<double>(layer_count)) : 0.02);
    }
  }

  nn::Embedding tokens{nullptr}, positions{nullptr};
  nn::Sequential layers{nullptr};
  nn::LayerNorm norm{nullptr};
  nn::Linear head{nullptr};
};
TORCH_MODULE(Gpt);

}  // namespace gpt
