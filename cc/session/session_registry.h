// The registry of sessions and of their options, by number. TensorFlow creates sessions
// by a target string, which cannot carry options.
//
// A target is "tensorbow" (default options) or "tensorbow://<number>". Thread-safe.
#ifndef TENSORBOW_CC_SESSION_SESSION_REGISTRY_H_
#define TENSORBOW_CC_SESSION_SESSION_REGISTRY_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "cc/config/options.h"
#include "cc/session/tensorbow_session.h"

namespace tensorbow {

inline constexpr absl::string_view kTargetPrefix = "tensorbow";

// Keeps `options` for the session that is created next with the returned number.
int64_t RegisterOptions(Options options);
// Drops options that no session was created with. No-op if one was.
void UnregisterOptions(int64_t number);

// Calls `f` with the session of that number and keeps it alive meanwhile. NotFound if
// it is deleted.
absl::Status WithSession(int64_t number,
                         const std::function<absl::Status(TensorBowSession*)>& f);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SESSION_SESSION_REGISTRY_H_
