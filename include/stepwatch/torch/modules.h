// namespace stepwatch::nn: torch::nn with every stock module watchable.
//
//   namespace nn = stepwatch::nn;   // was torch::nn
//
// All other names come from torch::nn unchanged: options, functional, init, utils, Module, Cloneable, and the
// containers Sequential, ModuleList, ModuleDict, ParameterList, ParameterDict and AnyModule, which are not watched
// themselves.
#pragma once

#include <torch/nn.h>

#include "stepwatch/torch/watched_module.h"

namespace stepwatch::nn {

using namespace torch::nn;  // NOLINT(google-build-using-namespace): this namespace is torch::nn with a few names
                            // changed

// Linear layers and shapes.
using Identity = Watched<torch::nn::Identity>;
using Linear = Watched<torch::nn::Linear>;
using Flatten = Watched<torch::nn::Flatten>;
using Unflatten = Watched<torch::nn::Unflatten>;
using Bilinear = Watched<torch::nn::Bilinear>;

// Embeddings. from_pretrained returns a watched module, too.
class Embedding : public Watched<torch::nn::Embedding> {
 public:
  using Watched<torch::nn::Embedding>::Watched;
  static Embedding from_pretrained(const torch::Tensor& embeddings,
                                   const torch::nn::EmbeddingFromPretrainedOptions& options = {}) {
    return Embedding(Impl::FromPlain(*torch::nn::Embedding::from_pretrained(embeddings, options)));
  }
};
class EmbeddingBag : public Watched<torch::nn::EmbeddingBag> {
 public:
  using Watched<torch::nn::EmbeddingBag>::Watched;
  static EmbeddingBag from_pretrained(const torch::Tensor& embeddings,
                                      const torch::nn::EmbeddingBagFromPretrainedOptions& options = {}) {
    return EmbeddingBag(Impl::FromPlain(*torch::nn::EmbeddingBag::from_pretrained(embeddings, options)));
  }
};

// Convolutions.
using Conv1d = Watched<torch::nn::Conv1d>;
using Conv2d = Watched<torch::nn::Conv2d>;
using Conv3d = Watched<torch::nn::Conv3d>;
using ConvTranspose1d = Watched<torch::nn::ConvTranspose1d>;
using ConvTranspose2d = Watched<torch::nn::ConvTranspose2d>;
using ConvTranspose3d = Watched<torch::nn::ConvTranspose3d>;

// Pooling.
using AvgPool1d = Watched<torch::nn::AvgPool1d>;
using AvgPool2d = Watched<torch::nn::AvgPool2d>;
using AvgPool3d = Watched<torch::nn::AvgPool3d>;
using MaxPool1d = Watched<torch::nn::MaxPool1d>;
using MaxPool2d = Watched<torch::nn::MaxPool2d>;
using MaxPool3d = Watched<torch::nn::MaxPool3d>;
using AdaptiveMaxPool1d = Watched<torch::nn::AdaptiveMaxPool1d>;
using AdaptiveMaxPool2d = Watched<torch::nn::AdaptiveMaxPool2d>;
using AdaptiveMaxPool3d = Watched<torch::nn::AdaptiveMaxPool3d>;
using AdaptiveAvgPool1d = Watched<torch::nn::AdaptiveAvgPool1d>;
using AdaptiveAvgPool2d = Watched<torch::nn::AdaptiveAvgPool2d>;
using AdaptiveAvgPool3d = Watched<torch::nn::AdaptiveAvgPool3d>;
using MaxUnpool1d = Watched<torch::nn::MaxUnpool1d>;
using MaxUnpool2d = Watched<torch::nn::MaxUnpool2d>;
using MaxUnpool3d = Watched<torch::nn::MaxUnpool3d>;
using FractionalMaxPool2d = Watched<torch::nn::FractionalMaxPool2d>;
using FractionalMaxPool3d = Watched<torch::nn::FractionalMaxPool3d>;
using LPPool1d = Watched<torch::nn::LPPool1d>;
using LPPool2d = Watched<torch::nn::LPPool2d>;
using LPPool3d = Watched<torch::nn::LPPool3d>;

// Padding.
using ReflectionPad1d = Watched<torch::nn::ReflectionPad1d>;
using ReflectionPad2d = Watched<torch::nn::ReflectionPad2d>;
using ReflectionPad3d = Watched<torch::nn::ReflectionPad3d>;
using ReplicationPad1d = Watched<torch::nn::ReplicationPad1d>;
using ReplicationPad2d = Watched<torch::nn::ReplicationPad2d>;
using ReplicationPad3d = Watched<torch::nn::ReplicationPad3d>;
using ZeroPad1d = Watched<torch::nn::ZeroPad1d>;
using ZeroPad2d = Watched<torch::nn::ZeroPad2d>;
using ZeroPad3d = Watched<torch::nn::ZeroPad3d>;
using ConstantPad1d = Watched<torch::nn::ConstantPad1d>;
using ConstantPad2d = Watched<torch::nn::ConstantPad2d>;
using ConstantPad3d = Watched<torch::nn::ConstantPad3d>;

// Activations and attention.
using ELU = Watched<torch::nn::ELU>;
using SELU = Watched<torch::nn::SELU>;
using Hardshrink = Watched<torch::nn::Hardshrink>;
using Hardtanh = Watched<torch::nn::Hardtanh>;
using LeakyReLU = Watched<torch::nn::LeakyReLU>;
using LogSigmoid = Watched<torch::nn::LogSigmoid>;
using Softmax = Watched<torch::nn::Softmax>;
using Softmin = Watched<torch::nn::Softmin>;
using LogSoftmax = Watched<torch::nn::LogSoftmax>;
using Softmax2d = Watched<torch::nn::Softmax2d>;
using PReLU = Watched<torch::nn::PReLU>;
using ReLU = Watched<torch::nn::ReLU>;
using ReLU6 = Watched<torch::nn::ReLU6>;
using RReLU = Watched<torch::nn::RReLU>;
using CELU = Watched<torch::nn::CELU>;
using GLU = Watched<torch::nn::GLU>;
using GELU = Watched<torch::nn::GELU>;
using SiLU = Watched<torch::nn::SiLU>;
using Mish = Watched<torch::nn::Mish>;
using Sigmoid = Watched<torch::nn::Sigmoid>;
using Softplus = Watched<torch::nn::Softplus>;
using Softshrink = Watched<torch::nn::Softshrink>;
using Softsign = Watched<torch::nn::Softsign>;
using Tanh = Watched<torch::nn::Tanh>;
using Tanhshrink = Watched<torch::nn::Tanhshrink>;
using Threshold = Watched<torch::nn::Threshold>;
using MultiheadAttention = Watched<torch::nn::MultiheadAttention>;

// Normalisation.
using BatchNorm1d = Watched<torch::nn::BatchNorm1d>;
using BatchNorm2d = Watched<torch::nn::BatchNorm2d>;
using BatchNorm3d = Watched<torch::nn::BatchNorm3d>;
using InstanceNorm1d = Watched<torch::nn::InstanceNorm1d>;
using InstanceNorm2d = Watched<torch::nn::InstanceNorm2d>;
using InstanceNorm3d = Watched<torch::nn::InstanceNorm3d>;
using LayerNorm = Watched<torch::nn::LayerNorm>;
using LocalResponseNorm = Watched<torch::nn::LocalResponseNorm>;
using CrossMapLRN2d = Watched<torch::nn::CrossMapLRN2d>;
using GroupNorm = Watched<torch::nn::GroupNorm>;

// Dropout.
using Dropout = Watched<torch::nn::Dropout>;
using Dropout2d = Watched<torch::nn::Dropout2d>;
using Dropout3d = Watched<torch::nn::Dropout3d>;
using AlphaDropout = Watched<torch::nn::AlphaDropout>;
using FeatureAlphaDropout = Watched<torch::nn::FeatureAlphaDropout>;

// Recurrent.
using RNN = Watched<torch::nn::RNN>;
using LSTM = Watched<torch::nn::LSTM>;
using GRU = Watched<torch::nn::GRU>;
using RNNCell = Watched<torch::nn::RNNCell>;
using LSTMCell = Watched<torch::nn::LSTMCell>;
using GRUCell = Watched<torch::nn::GRUCell>;

// Transformers.
using TransformerEncoderLayer = Watched<torch::nn::TransformerEncoderLayer>;
using TransformerDecoderLayer = Watched<torch::nn::TransformerDecoderLayer>;
using TransformerEncoder = Watched<torch::nn::TransformerEncoder>;
using TransformerDecoder = Watched<torch::nn::TransformerDecoder>;
using Transformer = Watched<torch::nn::Transformer>;

// Vision.
using Upsample = Watched<torch::nn::Upsample>;
using PixelShuffle = Watched<torch::nn::PixelShuffle>;
using PixelUnshuffle = Watched<torch::nn::PixelUnshuffle>;
using Fold = Watched<torch::nn::Fold>;
using Unfold = Watched<torch::nn::Unfold>;

// Distances.
using CosineSimilarity = Watched<torch::nn::CosineSimilarity>;
using PairwiseDistance = Watched<torch::nn::PairwiseDistance>;

// Losses.
using L1Loss = Watched<torch::nn::L1Loss>;
using KLDivLoss = Watched<torch::nn::KLDivLoss>;
using MSELoss = Watched<torch::nn::MSELoss>;
using BCELoss = Watched<torch::nn::BCELoss>;
using HingeEmbeddingLoss = Watched<torch::nn::HingeEmbeddingLoss>;
using MultiMarginLoss = Watched<torch::nn::MultiMarginLoss>;
using CosineEmbeddingLoss = Watched<torch::nn::CosineEmbeddingLoss>;
using SmoothL1Loss = Watched<torch::nn::SmoothL1Loss>;
using HuberLoss = Watched<torch::nn::HuberLoss>;
using MultiLabelMarginLoss = Watched<torch::nn::MultiLabelMarginLoss>;
using SoftMarginLoss = Watched<torch::nn::SoftMarginLoss>;
using MultiLabelSoftMarginLoss = Watched<torch::nn::MultiLabelSoftMarginLoss>;
using TripletMarginLoss = Watched<torch::nn::TripletMarginLoss>;
using TripletMarginWithDistanceLoss = Watched<torch::nn::TripletMarginWithDistanceLoss>;
using CTCLoss = Watched<torch::nn::CTCLoss>;
using PoissonNLLLoss = Watched<torch::nn::PoissonNLLLoss>;
using MarginRankingLoss = Watched<torch::nn::MarginRankingLoss>;
using NLLLoss = Watched<torch::nn::NLLLoss>;
using CrossEntropyLoss = Watched<torch::nn::CrossEntropyLoss>;
using BCEWithLogitsLoss = Watched<torch::nn::BCEWithLogitsLoss>;
using AdaptiveLogSoftmaxWithLoss = Watched<torch::nn::AdaptiveLogSoftmaxWithLoss>;

// A function as a module.
using Functional = Watched<torch::nn::Functional>;

}  // namespace stepwatch::nn
