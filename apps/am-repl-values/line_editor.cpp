#include "line_editor.h"

#include <fcntl.h>
#include <histedit.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cwchar>
#include <utility>

#include "am/base/text.h"
#include "am/term/printable.h"

namespace am_repl {
namespace {

namespace fs = std::filesystem;

constexpr int kHistoryLines = 2000;
// Marks the beginning and the end of text, for example a colour sequence, that occupies no columns
// on the screen.
constexpr char kUnseen = '\1';
// Key that makes libedit redraw the line with the hint. Ctrl-_ has no other use here.
constexpr wchar_t kDrawHint = 0x1f;

// Creates the folder of the history file. Returns the file's path, or an empty path if the folder
// cannot be created or written.
fs::path usable(const fs::path& history) {
  if (history.empty()) return {};
  std::error_code problem;
  fs::create_directories(history.parent_path(), problem);
  if (problem || ::access(history.parent_path().c_str(), W_OK) != 0) return {};
  return history;
}

class EditLineEditor : public LineEditor {
 public:
  explicit EditLineEditor(LineEditorOptions options)
      : options_(std::move(options)), history_path_(usable(options_.history)) {
    // Only LC_CTYPE follows the locale of the user. LC_NUMERIC stays "C", so that numbers keep
    // their decimal point.
    const char* locale = std::setlocale(LC_CTYPE, "");
    if (locale == nullptr || MB_CUR_MAX == 1) std::setlocale(LC_CTYPE, "C.UTF-8");
    editor_ = ::el_init("am-repl", stdin, stdout, stderr);
    history_ = ::history_init();
    ::history(history_, &event_, H_SETSIZE, kHistoryLines);
    ::history(history_, &event_, H_SETUNIQUE, 1);
    if (!history_path_.empty()) ::history(history_, &event_, H_LOAD, history_path_.c_str());
    ::el_set(editor_, EL_CLIENTDATA, this);
    ::el_set(editor_, EL_PROMPT, &EditLineEditor::prompt_of);
    ::el_set(editor_, EL_EDITOR, "emacs");
    ::el_set(editor_, EL_SIGNAL, 0);
    ::el_set(editor_, EL_GETCFN, &EditLineEditor::on_read);
    ::el_set(editor_, EL_HIST, ::history, history_);
    ::el_set(editor_, EL_ADDFN, "am-complete", "complete commands and names",
             &EditLineEditor::on_tab);
    ::el_set(editor_, EL_BIND, "^I", "am-complete", nullptr);
    ::el_set(editor_, EL_BIND, "^R", "em-inc-search-prev", nullptr);
    // The hint to the right of the line lists the operands and options of the typed command. The
    // hint depends on the complete words before the cursor, and disappears when the line is
    // submitted. libedit does not ask for a new hint after each letter, so read_character()
    // requests a redraw after each blank.
    ::el_set(editor_, EL_RPROMPT_ESC, &EditLineEditor::hint_of, kUnseen);
    ::el_set(editor_, EL_ADDFN, "am-hint", "draw the hint", &EditLineEditor::on_hint);
    ::el_set(editor_, EL_BIND, "^_", "am-hint", nullptr);
    ::el_set(editor_, EL_ADDFN, "am-enter", "take the line", &EditLineEditor::on_enter);
    ::el_set(editor_, EL_BIND, "^J", "am-enter", nullptr);
    ::el_source(editor_, nullptr);  // reads the user's ~/.editrc
  }
  EditLineEditor(const EditLineEditor&) = delete;
  EditLineEditor& operator=(const EditLineEditor&) = delete;
  ~EditLineEditor() override {
    ::el_end(editor_);
    ::history_end(history_);
  }

  Line read(const std::string& prompt) override {
    prompt_ = prompt;
    interrupted_ = false;
    done_ = false;
    after_blank_ = false;
    int count = 0;
    // The terminal mode is set before the prompt appears, so that all keys pressed from then on are
    // read as line input.
    ::el_set(editor_, EL_PREP_TERM, 1);
    const char* text = ::el_gets(editor_, &count);
    if (text == nullptr || count <= 0) {
      if (interrupted_) ::el_reset(editor_);
      std::fputs(interrupted_ ? "^C\n" : "\n", stdout);
      std::fflush(stdout);
      return {interrupted_ ? Line::Kind::kInterrupted : Line::Kind::kEnd, {}};
    }
    std::string line(text, static_cast<size_t>(count));
    if (!line.empty() && line.back() == '\n') line.pop_back();
    return {Line::Kind::kText, line};
  }

  void remember(const std::string& text) override {
    if (am::trim(text).empty() || text.front() == ' ') return;
    ::history(history_, &event_, H_ENTER, text.c_str());
    if (history_path_.empty()) return;
    save(text);
  }

 private:
  // Adds the line to the history file. Reads the file first, so that lines of concurrent sessions
  // are not lost, and replaces it by a rename, so that readers see only complete files.
  void save(const std::string& text) const {
    const int folder = ::open(history_path_.parent_path().c_str(), O_RDONLY | O_DIRECTORY);
    if (folder >= 0) ::flock(folder, LOCK_EX);
    History* all = ::history_init();
    HistEvent event = {};
    ::history(all, &event, H_SETSIZE, kHistoryLines);
    ::history(all, &event, H_SETUNIQUE, 1);
    ::history(all, &event, H_LOAD, history_path_.c_str());
    ::history(all, &event, H_ENTER, text.c_str());
    const fs::path fresh = history_path_.string() + ".new";
    if (::history(all, &event, H_SAVE, fresh.c_str()) >= 0) {
      ::chmod(fresh.c_str(), S_IRUSR | S_IWUSR);
      std::error_code ignored;
      fs::rename(fresh, history_path_, ignored);
    }
    ::history_end(all);
    if (folder >= 0) ::close(folder);
  }

  static EditLineEditor& self(EditLine* editor) {
    void* data = nullptr;
    ::el_get(editor, EL_CLIENTDATA, &data);
    return *static_cast<EditLineEditor*>(data);
  }

  static char* prompt_of(EditLine* editor) { return self(editor).prompt_.data(); }

  static char* hint_of(EditLine* editor) { return self(editor).hint(); }

  static unsigned char on_hint(EditLine*, int) { return CC_REFRESH; }

  // Handles Enter: redraws the line without its hint, then submits it by pushing the key ^M.
  static unsigned char on_enter(EditLine* editor, int) {
    self(editor).done_ = true;
    ::el_push(editor, "\r");
    return CC_REFRESH;
  }

  static unsigned char on_tab(EditLine* editor, int) { return self(editor).complete(); }

  static int on_read(EditLine* editor, wchar_t* out) { return self(editor).read_character(*out); }

  // Returns whether the user is searching the history: during a search, the buffer of libedit
  // contains a newline before the search text.
  bool searches() const {
    const LineInfo* info = ::el_line(editor_);
    return std::find(info->buffer, info->lastchar, '\n') != info->lastchar;
  }

  // Reads one character into `out`, or sets `out` to kDrawHint to request a redraw. Returns 1 if
  // `out` is set, 0 at the end of the input, and -1 if Ctrl-C cancelled the line.
  int read_character(wchar_t& out) {
    if (std::exchange(after_blank_, false) && !searches()) {
      out = kDrawHint;
      return 1;
    }
    std::mbstate_t state = {};
    while (true) {
      // Signals that have already arrived are handled here, before poll(). A later signal makes
      // fd() readable, which ends poll().
      if (options_.interrupts->came()) {
        if (!std::exchange(done_, true)) {  // first redraws the line without its hint
          out = kDrawHint;
          return 1;
        }
        interrupted_ = true;
        return -1;
      }
      const bool resized = options_.interrupts->take_resize();
      const bool continued = options_.interrupts->take_continued();
      if (continued) {
        // The shell has changed the mode of the terminal, and the cursor is on a new line. libedit
        // ignores a request for the mode that it has set last, so another mode is set first.
        ::el_set(editor_, EL_PREP_TERM, 0);
        ::el_set(editor_, EL_PREP_TERM, 1);
      }
      if (resized || continued) {  // a stopped process receives no SIGWINCH
        ::el_resize(editor_);
        ::el_set(editor_, EL_REFRESH);
        continue;
      }
      std::array<pollfd, 2> inputs = {pollfd{STDIN_FILENO, POLLIN, 0},
                                      pollfd{options_.interrupts->fd(), POLLIN, 0}};
      const int ready = ::poll(inputs.data(), inputs.size(), -1);
      if ((ready < 0 && errno == EINTR) || inputs[1].revents != 0) continue;
      char byte = 0;
      if (ready < 0 || ::read(STDIN_FILENO, &byte, 1) <= 0) return 0;
      const size_t length = std::mbrtowc(&out, &byte, 1, &state);
      if (length == static_cast<size_t>(-2))
        continue;  // an incomplete UTF-8 character: read its next byte
      if (length == static_cast<size_t>(-1)) out = L'?';
      after_blank_ = out == L' ';
      return 1;
    }
  }

  std::string before_cursor() const {
    const LineInfo* info = ::el_line(editor_);
    return {info->buffer, static_cast<size_t>(info->cursor - info->buffer)};
  }

  // Returns the hint for the words before the cursor, at most half a window wide. A coloured hint
  // ends with a blank, because libedit ignores colour sequences that no character follows.
  char* hint() {
    const int columns = am::term::terminal_width(STDOUT_FILENO, options_.style.width) / 2;
    hint_ = done_ ? std::string() : am::inspect::hint(before_cursor(), columns);
    const std::string painted = options_.style.paint(am::term::Role::kDim, hint_);
    const size_t before = painted.find(hint_);
    if (before > 0) {
      hint_ = am::cat(kUnseen, painted.substr(0, before), kUnseen, hint_, kUnseen,
                      painted.substr(before + hint_.size()), kUnseen, " ");
    }
    return hint_.data();
  }

  unsigned char complete() {
    const std::string before = before_cursor();
    const am::inspect::Completion found = options_.completer(before);
    if (found.candidates.empty()) return CC_REFRESH_BEEP;
    std::string text = am::inspect::common_prefix(found.candidates);
    const bool goes_on =
        text.empty() || text.back() == '.' || text.back() == '/' || text.back() == '(';
    if (found.candidates.size() == 1 && !goes_on) text += ' ';
    const std::string word = before.substr(found.begin);
    // A name with control characters is only listed and not inserted, because the editor would
    // print the control characters unchanged.
    if (text.size() > word.size() && text == am::term::printable(text)) {
      ::el_insertstr(editor_, text.substr(word.size()).c_str());
      return CC_REFRESH;
    }
    list(found.candidates);
    return CC_REDISPLAY;
  }

  // Prints the candidates below the line. The editor redraws the prompt and the line afterwards.
  void list(const std::vector<std::string>& candidates) const {
    constexpr size_t kMost = 60;
    std::string text = "\n";
    for (size_t i = 0; i < candidates.size() && i < kMost; ++i) {
      text += am::cat("  ", am::term::echo(candidates[i]), "\n");
    }
    if (candidates.size() > kMost) text += am::cat("  and ", candidates.size() - kMost, " more\n");
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  }

  LineEditorOptions options_;
  fs::path history_path_;
  EditLine* editor_ = nullptr;
  History* history_ = nullptr;
  HistEvent event_ = {};
  std::string prompt_;
  std::string hint_;
  bool interrupted_ = false;
  bool done_ = false;  // set if the line was submitted or cancelled: no hint is shown
  bool after_blank_ = false;
};

}  // namespace

std::unique_ptr<LineEditor> make_line_editor(LineEditorOptions options) {
  return std::make_unique<EditLineEditor>(std::move(options));
}

fs::path history_file() {
  const char* state = std::getenv("XDG_STATE_HOME");
  if (state != nullptr && *state != '\0') return fs::path(state) / "am" / "history";
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0') return {};
  return fs::path(home) / ".local" / "state" / "am" / "history";
}

}  // namespace am_repl
