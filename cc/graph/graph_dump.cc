#include "cc/graph/graph_dump.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/logging.h"
#include "tensorflow/core/platform/protobuf.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

const char* DumpFolder() { return std::getenv("TENSORBOW_DUMP_GRAPHS"); }

std::string TextOf(const tf::protobuf::Message& message) {
  std::string text;
  tf::protobuf::TextFormat::PrintToString(message, &text);
  return text;
}

}  // namespace

bool DumpsGraphs() { return DumpFolder() != nullptr; }

std::string SortedText(const tf::GraphDef& graph) {
  std::multiset<std::string> texts;
  for (const tf::NodeDef& node : graph.node()) texts.insert(TextOf(node));
  for (const tf::FunctionDef& function : graph.library().function()) {
    texts.insert(TextOf(function));
  }
  return absl::StrJoin(texts, "\n");
}

std::string SortedText(const tf::Graph& graph) {
  tf::GraphDef definition;
  graph.ToGraphDef(&definition);
  return SortedText(definition);
}

void DumpText(absl::string_view name, absl::string_view text) {
  const char* const folder = DumpFolder();
  if (folder == nullptr) return;
  static std::atomic<int> files{0};
  const std::string file =
      absl::StrCat(folder, "/", getpid(), "-", files.fetch_add(1), "-", name, ".txt");
  const absl::Status written = tf::WriteStringToFile(tf::Env::Default(), file, text);
  if (!written.ok()) LOG(INFO) << "No graph in " << file << ": " << written;
}

}  // namespace tensorbow
