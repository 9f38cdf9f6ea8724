#include "cc/activity/trace.h"

#include <algorithm>
#include <cstdio>

namespace tensorbow {

namespace {

// Returns the text as a JSON string.
std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const unsigned char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += static_cast<char>(c);
    } else if (c < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof(escaped), "\\u%04x", c);
      quoted += escaped;
    } else {
      quoted += static_cast<char>(c);
    }
  }
  return quoted + '"';
}

// Returns microseconds with three decimals.
std::string Micros(int64_t nanos) {
  char text[32];
  std::snprintf(text, sizeof(text), "%lld.%03lld", static_cast<long long>(nanos / 1000),
                static_cast<long long>(nanos % 1000));
  return text;
}

}  // namespace

int Trace::Number(const std::string& name) {
  const auto [known, is_new] =
      numbers_.try_emplace(name, static_cast<int>(names_.size()));
  if (is_new) names_.push_back(name);
  return known->second;
}

void Trace::Add(int lane, int name, int64_t begin, int64_t end) {
  if (events_.size() >= most_events_) {
    ++dropped_;
    return;
  }
  begin = std::max(begin, origin_);
  end = std::max(end, begin);
  num_lanes_ = std::max(num_lanes_, lane + 1);
  events_.push_back({lane, name, begin - origin_, end - origin_});
}

std::string Trace::Json() const {
  std::vector<std::string> names;
  for (const std::string& name : names_) names.push_back(Quoted(name));
  std::string json = "{\"displayTimeUnit\": \"ms\", \"otherData\": {\"dropped\": " +
                     std::to_string(dropped_) + "}, \"traceEvents\": [\n";
  json +=
      R"({"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "TensorBow"}})";
  for (int lane = 0; lane < num_lanes_; ++lane) {
    const std::string name =
        lane == 0 ? "session" : "learner " + std::to_string(lane - 1);
    const std::string tid = std::to_string(lane);
    json += ",\n{\"ph\": \"M\", \"pid\": 1, \"tid\": " + tid +
            ", \"name\": \"thread_name\", \"args\": {\"name\": \"" + name + "\"}}";
    json += ",\n{\"ph\": \"M\", \"pid\": 1, \"tid\": " + tid +
            ", \"name\": \"thread_sort_index\", \"args\": {\"sort_index\": " + tid +
            "}}";
  }
  for (const Event& event : events_) {
    json += ",\n{\"ph\": \"X\", \"pid\": 1, \"tid\": " + std::to_string(event.lane) +
            ", \"name\": " + names[event.name] + ", \"ts\": " + Micros(event.begin) +
            ", \"dur\": " + Micros(event.end - event.begin) + "}";
  }
  return json + "\n]}\n";
}

}  // namespace tensorbow
