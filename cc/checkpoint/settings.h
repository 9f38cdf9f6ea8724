// The settings that a session must share with a checkpoint, in the user's words.
#ifndef TENSORBOW_CC_CHECKPOINT_SETTINGS_H_
#define TENSORBOW_CC_CHECKPOINT_SETTINGS_H_

#include "cc/checkpoint/saved_state.h"
#include "cc/config/options.h"

namespace tensorbow {

// Returns the settings of a session with so many learners on this host.
SavedState::Settings SettingsOf(const Options& options, int num_learners);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_CHECKPOINT_SETTINGS_H_
