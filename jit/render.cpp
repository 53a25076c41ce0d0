// One translation unit out of constants, a source and the headers it asks for.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "jit/backend.h"
#include "jit/directives.h"
#include "jit/error.h"
#include "jit/unit.h"

namespace quern::jit {
namespace {

constexpr std::size_t kMaxText = std::size_t{64} << 20;
constexpr std::size_t kMaxDepth = 200;
// What stands in the place of __has_include and its like: a macro that says no.
constexpr std::string_view kNoProbe = "QUERN_NO_SUCH_FILE";

std::string quoted(std::string_view name) {
  std::string text = "\"";
  for (const char c : name) {
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text + '"';
}

void check_file(const File& file) {
  const bool bad = file.name.empty() || std::any_of(file.name.begin(), file.name.end(), [](char c) {
                     return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
                   });
  if (bad)
    throw Error(QUERN_INVALID, "file name: '" + std::string(file.name) + "' is empty or holds a control character");
  if (file.text.find('\0') != std::string_view::npos) {
    throw Error(QUERN_INVALID, std::string(file.name) + ": the text holds a NUL character");
  }
}

// A constant is one logical line: a line break in its value is spliced, and the value cannot reach into what follows.
void append_constant(std::string* text, const Constant& constant) {
  if (!is_identifier(constant.name) || constant.name == "defined") {
    throw Error(QUERN_INVALID, "constant: '" + constant.name + "' is not a C identifier");
  }
  *text += "#define " + constant.name + ' ';
  for (const char c : constant.value) {
    if (c == '\n') {
      *text += "\\\n";
    } else if ((static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f) {
      throw Error(QUERN_INVALID, "constant " + constant.name + ": the value holds a control character (code " +
                                     std::to_string(static_cast<unsigned char>(c)) + ")");
    } else {
      *text += c;
    }
  }
  if (constant.value.ends_with('\\')) {
    throw Error(QUERN_INVALID, "constant " + constant.name + ": the value ends in a backslash");
  }
  *text += '\n';
}

// Puts QUERN_ENTER at the beginning of every kernel: behind the brace that follows QUERN_KERNEL and its parentheses.
// Where the macro is defined, or spoken of, no brace follows.
std::string with_entries(std::string_view text) {
  constexpr std::string_view kKernel = "QUERN_KERNEL(", kEnter = " QUERN_ENTER ", kSpaces = " \t\r\n";
  std::string out;
  std::size_t done = 0;
  for (std::size_t at = text.find(kKernel); at != std::string_view::npos; at = text.find(kKernel, at + 1)) {
    std::size_t end = at + kKernel.size();
    for (int depth = 1; end < text.size() && depth != 0; ++end)
      depth += text[end] == '(' ? 1 : text[end] == ')' ? -1 : 0;
    end = text.find_first_not_of(kSpaces, end);
    if (end == std::string_view::npos || text[end] != '{') continue;
    out += text.substr(done, end + 1 - done);
    out += kEnter;
    done = end + 1;
  }
  return out += text.substr(done);
}

// Puts the files together. `#pragma once` cannot be obeyed by dropping every later inclusion: the first may stand in a
// branch of an #if that the compiler does not take. So each inclusion is remembered with the branches that were open
// around it. Where one of them is certain to have been compiled before, the text is dropped; else it comes again,
// inside #ifndef.
class Renderer {
 public:
  explicit Renderer(const Unit& unit) : unit_(unit) {}

  Rendered run() {
    std::string constants;
    for (const Constant& constant : unit_.constants) append_constant(&constants, constant);
    const File first{"constants", constants};
    const Directives of_constants = scan(first);
    if (!constants.empty()) expand(first, of_constants);
    check_file(unit_.source);
    used_.push_back(unit_.source);
    const Directives of_source = scan(unit_.source);
    expand(unit_.source, of_source);
    check_conditions(first, of_constants, of_source);
    if (probes_) out_ = "#define " + std::string(kNoProbe) + "(...) 0\n" + out_;
    if (unit_.checked) out_ = "#define QUERN_CHECKED 1\n" + with_entries(out_);
    return {std::move(out_), std::move(used_)};
  }

 private:
  using Branches = std::vector<unsigned>;
  struct Header {
    const File* file = nullptr;
    Directives directives;
    std::size_t number = 0;
    std::vector<Branches> seen_under;
  };

  static Directives scan(const File& file) {
    Directives directives = find_directives(file.text);
    if (const Objection& objection = directives.objection; !objection.text.empty()) object(file, objection);
    return directives;
  }

  [[noreturn]] static void object(const File& file, const Objection& objection) {
    throw Error(QUERN_INVALID, where(file, objection.line) + "the text " + objection.text);
  }

  // Over all the texts together: a macro of one may stand in a condition of another.
  void check_conditions(const File& first, const Directives& of_constants, const Directives& of_source) const {
    std::vector<const Directives*> texts = {&of_constants, &of_source};
    std::vector<const File*> files = {&first, &unit_.source};
    for (const auto& known : headers_) {
      texts.push_back(&known.second.directives);
      files.push_back(known.second.file);
    }
    std::size_t which = 0;
    if (const Objection objection = find_pasted_condition(texts, &which); !objection.text.empty())
      object(*files[which], objection);
  }

  // Maps a name to its header, read on first use; nullptr where there is none.
  Header* header(std::string_view name) {
    const auto known = headers_.find(name);
    if (known != headers_.end()) return &known->second;
    const auto file =
        std::find_if(unit_.headers.begin(), unit_.headers.end(), [&](const File& each) { return each.name == name; });
    if (file == unit_.headers.end()) return nullptr;
    check_file(*file);
    used_.push_back(*file);
    Header& made = headers_[file->name];
    made.file = &*file;
    made.directives = scan(*file);
    made.number = headers_.size();
    return &made;
  }

  void line(std::size_t number, std::string_view name) {
    out_ += "#line " + std::to_string(number) + ' ' + quoted(name) + '\n';
  }

  void expand(const File& file, const Directives& directives) {
    std::string_view text = file.text;
    const std::size_t depth_before = open_.size();
    line(1, file.name);
    std::size_t done = text.starts_with("\xef\xbb\xbf") ? 3 : 0;  // a byte order mark is an error in mid-text
    for (const Directive& directive : directives.list) {
      switch (directive.kind) {
        case Directive::Kind::open:
          open_.push_back(++last_branch_);
          break;
        case Directive::Kind::other_branch:
        case Directive::Kind::close:
          if (open_.size() == depth_before) unbalanced(file, directive.line);
          open_.pop_back();
          if (directive.kind == Directive::Kind::other_branch) open_.push_back(++last_branch_);
          break;
        case Directive::Kind::once:
          out_ += text.substr(done, directive.begin - done);
          out_.append(directive.lines, '\n');
          done = directive.end;
          break;
        case Directive::Kind::include:
          out_ += text.substr(done, directive.begin - done);
          done = directive.end;
          include(file, directive);
          line(directive.line + directive.lines, file.name);
          break;
        case Directive::Kind::probe:
          // Nothing is there but what was given: no header can be asked for.
          out_ += text.substr(done, directive.begin - done);
          out_ += kNoProbe;
          done = directive.end;
          probes_ = true;
          break;
        case Directive::Kind::refused:
          out_ += text.substr(done, directive.begin - done);
          done = directive.end;
          refuse(directive.name);
          line(directive.line + directive.lines, file.name);
          break;
      }
    }
    out_ += text.substr(done);
    if (!out_.ends_with('\n')) out_ += '\n';
    if (open_.size() != depth_before) unbalanced(file, directives.lines);
    if (out_.size() > kMaxText) {
      throw Error(QUERN_INVALID,
                  std::string(unit_.source.name) + ": more than 64 MiB of text once its includes are in");
    }
  }

  void include(const File& from, const Directive& directive) {
    Header* found = header(directive.name);
    if (found == nullptr && directive.angled) {
      // Often in a branch for another compiler: an error only where it is compiled.
      refuse("#include <" + directive.name + "> is not among the headers: a kernel is made of what is given with it");
      return;
    }
    if (found == nullptr) missing(from, directive);
    if (!found->directives.once) {
      nest(*found, from, directive);
      return;
    }
    for (const Branches& branches : found->seen_under) {
      if (branches.size() <= open_.size() && std::equal(branches.begin(), branches.end(), open_.begin())) return;
    }
    const bool again = !found->seen_under.empty();
    const std::string macro = "QUERN_INCLUDED_" + std::to_string(found->number);
    found->seen_under.push_back(open_);
    if (again) {
      out_ += "#ifndef " + macro + '\n';
      open_.push_back(++last_branch_);
    }
    out_ += "#define " + macro + '\n';
    nest(*found, from, directive);
    if (again) {
      out_ += "#endif\n";
      open_.pop_back();
    }
  }

  // The compiler says it, if it gets there.
  void refuse(const std::string& why) {
    std::string plain = why;
    for (char& c : plain) {
      const bool odd =
          c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f;
      if (odd) c = '?';
    }
    out_ += "#error \"quern: " + plain + "\"\n";
  }

  void nest(const Header& found, const File& from, const Directive& directive) {
    if (++depth_ > kMaxDepth) {
      throw Error(QUERN_INVALID,
                  where(from, directive.line) + "#include \"" + directive.name +
                      "\" is nested more than 200 deep: without #pragma once a header cannot include itself");
    }
    expand(*found.file, found.directives);
    --depth_;
  }

  static std::string where(const File& file, std::size_t number) {
    return std::string(file.name) + ':' + std::to_string(number) + ": ";
  }

  [[noreturn]] static void unbalanced(const File& file, std::size_t number) {
    throw Error(QUERN_INVALID, where(file, number) + "#if and #endif do not pair up within the file");
  }

  [[noreturn]] void missing(const File& from, const Directive& directive) const {
    std::string text = where(from, directive.line) + "#include \"" + directive.name + "\" is not among the headers";
    if (unit_.headers.empty()) {
      text += " (there are none)";
    } else {
      text += ':';
      for (std::size_t i = 0; i < unit_.headers.size() && i < 20; ++i) text += ' ' + std::string(unit_.headers[i].name);
      if (unit_.headers.size() > 20) text += " and " + std::to_string(unit_.headers.size() - 20) + " more";
    }
    throw Error(QUERN_INVALID, text);
  }

  const Unit& unit_;
  std::string out_;
  std::vector<File> used_;
  std::map<std::string_view, Header> headers_;
  Branches open_;
  unsigned last_branch_ = 0;
  std::size_t depth_ = 0;
  bool probes_ = false;
};

}  // namespace

Rendered render(const Unit& unit) { return Renderer(unit).run(); }

std::vector<File> used_files(const Unit& unit) {
  std::vector<File> used = {unit.source};
  bool known = true;
  // Depth first, as inclusion goes.
  const auto visit = [&](const auto& self, const File& file) -> void {
    known = known && !file.sha256.empty();
    for (const std::string_view name : file.includes) {
      const auto named = [&](const File& each) { return each.name == name; };
      const auto found = std::find_if(unit.headers.begin(), unit.headers.end(), named);
      known = known && found != unit.headers.end();
      if (!known) return;
      // The source is no header of its own, whatever it is called.
      if (std::any_of(used.begin() + 1, used.end(), named)) continue;
      used.push_back(*found);
      self(self, *found);
    }
  };
  visit(visit, unit.source);
  return known ? used : render(unit).used;
}

}  // namespace quern::jit
