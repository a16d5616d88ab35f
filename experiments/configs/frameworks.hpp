// SPDX-License-Identifier: Apache-2.0
// Declares all frameworks. Each framework is defined in the folder with its name. frameworks.cpp lists all of them.
#pragma once
#include "experiments/configs/framework.hpp"

namespace macheps::configs {

namespace accelerate {
extern const Framework framework;
}
namespace apex {
extern const Framework framework;
}
namespace axolotl {
extern const Framework framework;
}
namespace composer {
extern const Framework framework;
}
namespace deepspeed {
extern const Framework framework;
}
namespace gpt_neox {
extern const Framework framework;
}
namespace kohya {
extern const Framework framework;
}
namespace lightning {
extern const Framework framework;
}
namespace llamafactory {
extern const Framework framework;
}
namespace longspec {
extern const Framework framework;
}
namespace megatron {
extern const Framework framework;
}
namespace nanogpt {
extern const Framework framework;
}
namespace torch {
extern const Framework framework;
}
namespace torchtitan {
extern const Framework framework;
}
namespace torchtune {
extern const Framework framework;
}
namespace transformers {
extern const Framework framework;
}
namespace trl {
extern const Framework framework;
}
namespace verl {
extern const Framework framework;
}

}  // namespace macheps::configs
