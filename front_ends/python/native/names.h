// The attributes of torch's objects that hooks ask for in every step.
#pragma once

#include "front_ends/python/native/py_ref.h"

namespace stepwatch::python {

struct Names {
  const Name base{"_base"};
  const Name backward_hooks{"_backward_hooks"};
  const Name get{"get"};
  const Name grad{"grad"};
  const Name grad_fn{"grad_fn"};
  const Name main_grad{"main_grad"};
  const Name next_functions{"next_functions"};
  const Name output_nr{"output_nr"};
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
