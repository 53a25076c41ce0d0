// SPDX-License-Identifier: Apache-2.0
#include "bindings/engine/text/template.h"

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

#include "bindings/engine/text/template_expression.h"

namespace quern::engine {
namespace {

constexpr int kMostNested = 64;
constexpr std::size_t kMostWritten = 16u << 20;

void strip_end(std::string* text, std::string_view of) { text->erase(text->find_last_not_of(of) + 1); }

// A template cut at its tags: text, {{ output }}, {% statement %}; comments are gone, and so are the blanks that tags
// take with them.
struct Piece {
  enum Kind { TEXT, OUTPUT, STATEMENT } kind;
  std::string text;
  int line;
};

std::vector<Piece> cut(std::string_view source) {
  std::vector<Piece> pieces;
  int line = 1;
  bool strip_next = false, drop_newline = false;
  // A newline at a template's end is not part of it.
  if (source.ends_with('\n')) source.remove_suffix(1);
  for (std::size_t at = 0; at <= source.size();) {
    std::size_t open = at;
    while (open < source.size() && !(source[open] == '{' && open + 1 < source.size() &&
                                     (source[open + 1] == '{' || source[open + 1] == '%' || source[open + 1] == '#')))
      ++open;
    std::string text(source.substr(at, open - at));
    line += static_cast<int>(std::count(text.begin(), text.end(), '\n'));
    if (strip_next) text.erase(0, text.find_first_not_of(" \t\r\n"));
    if (drop_newline && text.starts_with('\n')) text.erase(0, 1);
    const bool tag = open < source.size();
    const char kind = tag ? source[open + 1] : '\0';
    std::size_t begin = open + 2;
    if (tag && begin < source.size() && source[begin] == '-') {
      strip_end(&text, " \t\r\n");
      ++begin;
    } else if (tag && begin < source.size() && source[begin] == '+') {
      ++begin;  // blanks before it stay
    } else if (tag && kind != '{') {
      // Blanks between the line's beginning and a statement go.
      std::size_t blank = open;
      while (blank > at && (source[blank - 1] == ' ' || source[blank - 1] == '\t')) --blank;
      if (blank == 0 || source[blank - 1] == '\n') text.resize(text.size() - std::min(text.size(), open - blank));
    }
    if (!text.empty()) pieces.push_back({Piece::TEXT, std::move(text), line});
    if (!tag) break;
    const std::string_view close = kind == '{' ? "}}" : kind == '%' ? "%}" : "#}";
    // A text in quotes may have anything in it.
    std::size_t end = begin;
    for (char quote = '\0'; end < source.size() && (quote != '\0' || !source.substr(end).starts_with(close)); ++end) {
      if (kind == '#') continue;
      if (quote != '\0' && source[end] == '\\') {
        ++end;
      } else if (quote != '\0' ? source[end] == quote : source[end] == '\'' || source[end] == '"') {
        quote = quote != '\0' ? '\0' : source[end];
      }
    }
    if (end >= source.size()) throw std::runtime_error("line " + std::to_string(line) + ": a tag has no end");
    strip_next = source[end - 1] == '-' && end > begin;
    const bool keep_next = kind != '{' && source[end - 1] == '+' && end > begin;
    drop_newline = kind != '{' && !strip_next && !keep_next;
    std::string inside(source.substr(begin, end - begin - (strip_next || keep_next ? 1 : 0)));
    const int first = line;
    line += static_cast<int>(std::count(inside.begin(), inside.end(), '\n'));
    if (kind != '#') pieces.push_back({kind == '{' ? Piece::OUTPUT : Piece::STATEMENT, std::move(inside), first});
    at = end + 2;
  }
  return pieces;
}

}  // namespace

struct Template::Node {
  struct Branch {
    Expression condition;  // empty: else
    std::vector<Node> body;
  };
  enum Kind { TEXT, OUTPUT, IF, FOR, SET, MACRO, BREAK, CONTINUE } kind = TEXT;
  enum class Flow { on, next, out };  // of the innermost for: its next round, or behind it
  int line = 0;
  std::string text;                // TEXT
  Expression expression;           // OUTPUT, SET, but where a SET is of its body's text; of FOR what it goes through
  Expression filter;               // of FOR, optional
  std::vector<std::string> names;  // of FOR, the loop's variables; of SET the variable, and its field; of MACRO its own
  std::vector<Branch> branches;    // of IF; of SET and MACRO their body; of FOR that, then its else where there is one
  std::vector<std::pair<std::string, Expression>> parameters;  // of MACRO
  bool looks_around = false;                                   // of FOR: at the items beside this one

  Flow write(Scope& scope, std::string* out) const;
  static Flow write_all(const std::vector<Node>& nodes, Scope& scope, std::string* out) {
    for (const Node& node : nodes) {
      if (const Flow flow = node.write(scope, out); flow != Flow::on) return flow;
    }
    return Flow::on;
  }

 private:
  void set(Scope& scope) const;
  void define(Scope& scope) const;
  void loop(Scope& scope, std::string* out) const;
  void bind(Scope& scope, const Value& item) const;
  Json place_of(const std::vector<Value>& items, std::size_t i) const;
};

namespace {

using Node = Template::Node;

class Reader {
 public:
  explicit Reader(std::vector<Piece> pieces) : pieces_(std::move(pieces)) {
    looks_around_ = std::any_of(pieces_.begin(), pieces_.end(), [](const Piece& piece) {
      return piece.text.find("previtem") != std::string::npos || piece.text.find("nextitem") != std::string::npos;
    });
  }

  // Throws with the line.
  std::vector<Node> read_all() {
    try {
      return read({});
    } catch (const std::runtime_error& error) {
      throw std::runtime_error("line " + std::to_string(line_) + ": " + error.what());
    }
  }

 private:
  // Up to one of the words that end a block, which is left in `word`; with none, to the end.
  std::vector<Node> read(const std::vector<std::string>& ends) {
    if (++depth_ > kMostNested) fail("blocks lie in each other more than 64 deep");
    std::vector<Node> nodes;
    while (next_ < pieces_.size()) {
      const Piece& piece = pieces_[next_++];
      line_ = piece.line;
      Node node;
      node.line = piece.line;
      if (piece.kind == Piece::TEXT) {
        node.text = piece.text;
        nodes.push_back(std::move(node));
        continue;
      }
      ExpressionReader inside(piece.text);
      if (piece.kind == Piece::OUTPUT) {
        node.kind = Node::OUTPUT;
        node.expression = inside.whole();
        inside.finish();
        nodes.push_back(std::move(node));
        continue;
      }
      word_ = inside.name();
      if (std::find(ends.begin(), ends.end(), word_) != ends.end()) {
        inside_ = inside;
        --depth_;
        return nodes;
      }
      if (word_ == "generation" || word_ == "endgeneration") continue;  // marks of training
      read_statement(inside, &node);
      nodes.push_back(std::move(node));
    }
    if (!ends.empty()) fail("there is no " + ends.back());
    --depth_;
    return nodes;
  }
  void read_statement(ExpressionReader& inside, Node* node) {
    if (word_ == "if") {
      node->kind = Node::IF;
      Expression condition = inside.whole();
      inside.finish();
      for (bool last = false;;) {
        node->branches.push_back({condition, read(last ? std::vector<std::string>{"endif"}
                                                       : std::vector<std::string>{"elif", "else", "endif"})});
        if (word_ == "endif") break;
        last = word_ == "else";
        condition = last ? Expression() : inside_.whole();
        inside_.finish();
      }
      inside_.finish();
    } else if (word_ == "for") {
      node->kind = Node::FOR;
      node->names.push_back(inside.name());
      if (inside.accept(",")) node->names.push_back(inside.name());
      if (!inside.accept("in")) fail("a for has no in");
      node->expression = inside.disjunction();
      if (inside.accept("if")) node->filter = inside.whole();
      inside.finish();
      node->looks_around = looks_around_;
      ++loops_;
      node->branches.push_back({{}, read({"else", "endfor"})});
      --loops_;
      if (word_ == "else") node->branches.push_back({{}, read({"endfor"})});
    } else if (word_ == "set") {
      node->kind = Node::SET;
      node->names.push_back(inside.name());
      if (inside.accept(".")) node->names.push_back(inside.name());
      if (inside.accept("=")) {
        node->expression = inside.whole();
        inside.finish();
      } else {
        inside.finish();
        node->branches.push_back({{}, read({"endset"})});
        inside_.finish();
      }
    } else if (word_ == "macro") {
      node->kind = Node::MACRO;
      node->names.push_back(inside.name());
      node->parameters = inside.parameters();
      inside.finish();
      const int loops = std::exchange(loops_, 0);
      node->branches.push_back({{}, read({"endmacro"})});
      loops_ = loops;
      inside_.finish();
    } else if (word_ == "break" || word_ == "continue") {
      if (loops_ == 0) fail(word_ + " is in no for");
      node->kind = word_ == "break" ? Node::BREAK : Node::CONTINUE;
      inside.finish();
    } else {
      fail("'" + word_ + "' is not known here");
    }
  }
  [[noreturn]] static void fail(const std::string& what) { throw std::runtime_error(what); }

  std::vector<Piece> pieces_;
  std::size_t next_ = 0;
  std::string word_;
  ExpressionReader inside_{""};
  int line_ = 1, depth_ = 0, loops_ = 0;
  bool looks_around_ = false;
};

}  // namespace

Template::Node::Flow Template::Node::write(Scope& scope, std::string* out) const {
  Flow flow = kind == BREAK ? Flow::out : kind == CONTINUE ? Flow::next : Flow::on;
  const auto checked = [&](const auto& run) {
    try {
      run();
    } catch (const JsonError& error) {
      throw std::runtime_error("line " + std::to_string(line) + ": " + error.what());
    } catch (const std::runtime_error& error) {
      if (std::string_view(error.what()).starts_with("line ")) throw;
      throw std::runtime_error("line " + std::to_string(line) + ": " + error.what());
    }
  };
  checked([&] {
    scope.charge(0);
    if (kind == TEXT) {
      *out += text;
    } else if (kind == OUTPUT) {
      *out += text_of(expression(scope));
    } else if (kind == SET) {
      set(scope);
    } else if (kind == MACRO) {
      define(scope);
    } else if (kind == IF) {
      const auto taken = std::find_if(branches.begin(), branches.end(), [&](const Branch& branch) {
        return branch.condition == nullptr || is_true(branch.condition(scope));
      });
      if (taken != branches.end()) flow = write_all(taken->body, scope, out);
    } else if (kind == FOR) {
      loop(scope, out);
    }
    if (out->size() > kMostWritten) throw std::runtime_error("it writes more than 16 MiB");
  });
  return flow;
}

void Template::Node::set(Scope& scope) const {
  Value value;
  if (expression != nullptr) {
    value = expression(scope);
  } else {
    std::string written;
    scope.enter();
    write_all(branches[0].body, scope, &written);
    scope.leave();
    scope.charge(written.size());
    value = value_of(std::move(written));
  }
  if (names.size() == 2) {
    scope.set_field(names[0], names[1], value);
  } else {
    scope.set(names[0], value);
  }
}

void Template::Node::define(Scope& scope) const {
  scope.define(names[0], [this](Scope& where, const Arguments& given) {
    const std::string& name = names[0];
    if (given.values.size() > parameters.size())
      throw std::runtime_error("the macro " + name + " takes " + std::to_string(parameters.size()) + " arguments");
    Scope::Frame variables;
    for (std::size_t i = 0; i < given.values.size(); ++i) variables[parameters[i].first] = given.values[i];
    for (const auto& [parameter, value] : given.named) {
      const bool known =
          std::any_of(parameters.begin(), parameters.end(), [&](const auto& each) { return each.first == parameter; });
      if (!known || variables.contains(parameter))
        throw std::runtime_error("the macro " + name + " has no parameter " + parameter + " left");
      variables[parameter] = value;
    }
    return where.within(std::move(variables), [&] {
      for (const auto& [parameter, otherwise] : parameters) {
        if (!where.has_own(parameter)) where.set(parameter, otherwise == nullptr ? nullptr : otherwise(where));
      }
      std::string written;
      write_all(branches[0].body, where, &written);
      return written;
    });
  });
}

// What a for's body knows of its place.
Json Template::Node::place_of(const std::vector<Value>& items, std::size_t i) const {
  const std::size_t left = items.size() - i - 1;
  Json place{{"index", i + 1},         {"index0", i},          {"first", i == 0},  {"last", left == 0},
             {"length", items.size()}, {"revindex", left + 1}, {"revindex0", left}};
  if (looks_around && i > 0) place["previtem"] = *items[i - 1];
  if (looks_around && left > 0) place["nextitem"] = *items[i + 1];
  return place;
}

// The loop's variables, of which a pair has two.
void Template::Node::bind(Scope& scope, const Value& item) const {
  if (names.size() == 1) return scope.set(names[0], item);
  if (item->items().size() != 2) throw std::runtime_error("a for with two variables goes through no pairs");
  for (std::size_t n = 0; n < 2; ++n) scope.set(names[n], Value(item, &item->items()[n]));
}

void Template::Node::loop(Scope& scope, std::string* out) const {
  const Value through = expression(scope);
  std::vector<Value> items;
  const auto add = [&](Value item) {
    scope.enter();
    bind(scope, item);
    if (filter == nullptr || is_true(filter(scope))) items.push_back(std::move(item));
    scope.leave();
  };
  if (through == nullptr) {
    // As Jinja has it there is nothing in it.
  } else if (through->is_string()) {
    for (std::string& character : characters_of(through->string())) add(value_of(std::move(character)));
  } else if (through->is_object()) {
    for (const Json::Member& member : through->members()) add(value_of(member.name));
  } else {
    for (const Json& item : through->items()) add(Value(through, &item));
  }
  for (std::size_t i = 0; i < items.size(); ++i) {
    scope.charge(0);
    scope.enter();
    bind(scope, items[i]);
    Json place = place_of(items, i);
    if (looks_around) scope.charge(weight_of(place));
    scope.set("loop", value_of(not_too_deep(std::move(place))));
    const Flow flow = write_all(branches[0].body, scope, out);
    scope.leave();
    if (flow == Flow::out) break;
  }
  if (items.empty() && branches.size() > 1) write_all(branches[1].body, scope, out);
}

Template::Template(std::string_view text) : root_(std::make_unique<Node>()) {
  try {
    Reader reader(cut(text));
    root_->branches.push_back({{}, reader.read_all()});
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(std::string("chat template, ") + error.what());
  }
}
Template::~Template() = default;

std::string Template::render(const Json& variables) const {
  Scope::Frame frame;
  for (const Json::Member& member : variables.members()) frame[member.name] = value_of(member.value);
  Scope scope(std::move(frame));
  std::string out;
  try {
    Node::write_all(root_->branches[0].body, scope, &out);
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(std::string("chat template, ") + error.what());
  }
  return out;
}

}  // namespace quern::engine
