// The attributes of torch's objects that hooks read in every step.
#pragma once

#include "front_ends/python/native/py_ref.h"

namespace stepwatch::python {

struct Names {
  const Name base{"_base"};
  const Name backward_hooks{"_backward_hooks"};
  const Name cdata{"_cdata"};
  const Name get{"get"};
  const Name grad{"grad"};
  const Name grad_fn{"grad_fn"};
  const Name id{"id"};
  const Name main_grad{"main_grad"};
  const Name modules{"_modules"};
  const Name next_functions{"next_functions"};
  const Name output_nr{"output_nr"};
  const Name param_groups{"param_groups"};
  const Name parameters{"_parameters"};
  const Name params{"params"};
  const Name post_accumulate_hooks{"_post_accumulate_grad_hooks"};
  const Name register_hook{"register_hook"};
  const Name register_hook_dict{"_register_hook_dict"};
  const Name register_post_accumulate{"register_post_accumulate_grad_hook"};
  const Name requires_grad{"requires_grad"};
  const Name sequence_nr{"_sequence_nr"};
  const Name training{"training"};
  const Name version{"_version"};
  const Name view_as{"view_as"};
};

}  // namespace stepwatch::python
