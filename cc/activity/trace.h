// What happened when, on lanes: lane 0 is the session, lane j + 1 learner j. Knows no
// TensorFlow.
#ifndef TENSORBOW_CC_ACTIVITY_TRACE_H_
#define TENSORBOW_CC_ACTIVITY_TRACE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace tensorbow {

class Trace {
 public:
  // More events are dropped, and counted: a forgotten trace does not fill the memory.
  static constexpr size_t kMostEvents = 4000000;

  // `origin`: nanoseconds of the clock that is 0 in the trace.
  explicit Trace(int64_t origin, size_t most_events = kMostEvents)
      : origin_(origin), most_events_(most_events) {}

  // The number by which events have this name.
  int Number(const std::string& name);
  // `name`: its number. What began before the origin begins there.
  void Add(int lane, int name, int64_t begin, int64_t end);

  // In Chrome's trace event format, which chrome://tracing and Perfetto show.
  std::string Json() const;

 private:
  struct Event {
    int lane;
    int name;
    int64_t begin;
    int64_t end;
  };

  int64_t origin_;
  size_t most_events_;
  int64_t dropped_ = 0;
  int num_lanes_ = 1;
  std::vector<std::string> names_;
  std::unordered_map<std::string, int> numbers_;  // by name
  std::vector<Event> events_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_ACTIVITY_TRACE_H_
