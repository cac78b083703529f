-- `net.http.dom`: the elements of an HTML page, to read values from it.
--
-- Reads any text, as a browser does: nothing is an error but a text without an element. The time is
-- linear in the text. Not a parser for pages that are shown: few of the rules for elements that end
-- by themselves are applied.
return function()
  local unescape = require "silly.net.http.helper".htmlunescape

  -- Elements below this depth become children of the one at it.
  local DEPTH = 512

  local function set(names)
    local found = {}
    for name in names:gmatch "%S+" do found[name] = true end
    return found
  end

  -- Elements without content, and those whose content is text up to their end tag.
  local VOID = set "area base br col embed hr img input link meta source track wbr"
  local RAW = set "script style"
  local TEXT = set "textarea title"
  -- What a start tag ends, unless it is inside of a new list, table or select.
  local ENDS = {
    li = set "li", dt = set "dt dd", dd = set "dt dd", option = set "option", p = set "p",
    tr = set "tr td th", td = set "td th", th = set "td th",
  }

  local SPACE = set "9 10 12 13 32"

  local function is_space(byte) return SPACE[tostring(byte)] end

  --- The text without blanks around it; nil if there is nothing else.
  local function trimmed(text)
    local first = text:find "%S"
    if not first then return nil end
    local last = #text
    while is_space(text:byte(last)) do last = last - 1 end
    return text:sub(first, last)
  end

  local Node = {}
  Node.__index = Node

  local function new(name)
    return setmetatable({ name = name, attr = {}, class = {}, child = {} }, Node)
  end

  --- Appends the texts of an element and of those in it to a list.
  function Node:value(list)
    for _, child in ipairs(self.child) do
      if type(child) == "string" then
        list[#list + 1] = child
      else
        child:value(list)
      end
    end
  end

  --- `text()` → all texts, one after the other.
  function Node:text()
    local list = {}
    self:value(list)
    return table.concat(list)
  end

  --- `match{ name =, id =, class = }` → boolean; `class` may be a list.
  function Node:match(wanted)
    if wanted.name and wanted.name ~= self.name then return false end
    if wanted.id and wanted.id ~= self.attr.id then return false end
    local classes = type(wanted.class) == "table" and wanted.class or { wanted.class }
    for _, class in ipairs(classes) do
      local found = false
      for _, own in ipairs(self.class) do found = found or own == class end
      if not found then return false end
    end
    return true
  end

  --- The conditions of `name.class#id`.
  local function conditions(selector)
    local wanted = { class = {} }
    for mark, value in selector:gmatch "([.#]?)([^.#]+)" do
      if mark == "." then
        table.insert(wanted.class, value)
      elseif mark == "#" then
        wanted.id = value
      elseif value ~= "*" then
        wanted.name = value:lower()
      end
    end
    return wanted
  end

  --- The elements of a list, and those in them, that match: those nearer to the root first.
  local function matching(roots, wanted, found)
    local queue, at, seen = {}, 1, {}
    for _, root in ipairs(roots) do queue[#queue + 1] = root end
    while queue[at] do
      local node = queue[at]
      at = at + 1
      if not seen[node] then
        seen[node] = true
        if node:match(wanted) then found[#found + 1] = node end
        for _, child in ipairs(node.child) do
          if type(child) == "table" then queue[#queue + 1] = child end
        end
      end
    end
    return found
  end

  --- `select(selector)` → list: elements by `name`, `.class`, `#id` or several of these; after a
  --- blank, those inside of what the part before has found.
  function Node:select(selector)
    local roots, found = { self }, {}
    for part in selector:gmatch "%S+" do
      found = matching(roots, conditions(part), {})
      roots = {}
      for _, node in ipairs(found) do
        for _, child in ipairs(node.child) do
          if type(child) == "table" then roots[#roots + 1] = child end
        end
      end
    end
    return found
  end

  --- `selectn(selector, level)` → list: `select` of the first that `select` finds, and so on.
  function Node:selectn(selector, level)
    local node = self
    for _ = 1, level - 1 do
      node = node:select(selector)[1]
      if not node then return {} end
    end
    return node:select(selector)
  end

  --- Reads the attributes of a start tag from `at`: the position behind it, and true if it ends with
  --- a slash.
  local function attributes(text, at, node)
    while true do
      at = text:find("%S", at)
      if not at then return #text + 1, false end
      local byte = text:sub(at, at)
      if byte == ">" then return at + 1, false end
      if byte == "/" then
        if text:sub(at + 1, at + 1) == ">" then return at + 2, true end
        at = at + 1
      else
        local stop = text:find("[%s/>=]", at + 1) or #text + 1
        local name = text:sub(at, stop - 1):lower()
        local value = true
        local equals = text:find("%S", stop)
        at = stop
        if equals and text:sub(equals, equals) == "=" then
          local begin = text:find("%S", equals + 1) or #text + 1
          local quote = text:sub(begin, begin)
          if quote == '"' or quote == "'" then
            stop = text:find(quote, begin + 1, true) or #text + 1
            value, at = text:sub(begin + 1, stop - 1), stop + 1
          else
            stop = text:find("[%s>]", begin) or #text + 1
            value, at = text:sub(begin, stop - 1), stop
          end
          value = unescape(value)
        end
        -- The first one counts.
        if node.attr[name] == nil then node.attr[name] = value end
      end
    end
  end

  --- Position behind a comment, a declaration or an instruction that begins at `at`.
  local function skipped(text, at)
    if text:sub(at, at + 3) == "<!--" then
      local _, stop = text:find("-->", at + 4, true)
      return (stop or #text) + 1
    end
    return (text:find(">", at, true) or #text) + 1
  end

  local function append(parent, text, raw)
    local value = raw and text or trimmed(text)
    if value then table.insert(parent.child, raw and value or unescape(value)) end
  end

  --- `parse(html)` → the first element; or nil, err
  local function parse(text)
    if type(text) ~= "string" then
      error("bad argument #1 to 'parse' (string expected, got " .. type(text) .. ")", 2)
    end
    local document = new "#document"
    local open, lower, at = { document }, nil, 1
    local function close_to(count)
      for depth = #open, count + 1, -1 do open[depth] = nil end
    end
    while at <= #text do
      local mark = text:find("<[%a!?/]", at)
      append(open[#open], text:sub(at, (mark or #text + 1) - 1))
      if not mark then break end
      local name = text:match("^[%a][^%s/>]*", mark + 1)
      if name then
        name = name:lower()
        local ends = ENDS[name]
        while ends and ends[open[#open].name] do close_to(#open - 1) end
        local node = new(name)
        table.insert(open[#open].child, node)
        local is_closed
        at, is_closed = attributes(text, mark + 1 + #name, node)
        for class in tostring(node.attr.class or ""):gmatch "%S+" do table.insert(node.class, class) end
        if RAW[name] or TEXT[name] then
          lower = lower or text:lower()
          local stop = lower:find("</" .. name, at, true) or #text + 1
          if stop > at then append(node, text:sub(at, stop - 1), RAW[name]) end
          at = (text:find(">", stop, true) or #text) + 1
        elseif not is_closed and not VOID[name] and #open < DEPTH then
          open[#open + 1] = node
        end
      else
        local closed = text:match("^/([%a][^%s/>]*)", mark + 1)
        at = skipped(text, mark)
        closed = closed and closed:lower()
        for depth = closed and #open or 1, 2, -1 do
          if open[depth].name == closed then
            close_to(depth - 1)
            break
          end
        end
      end
    end
    for _, child in ipairs(document.child) do
      if type(child) == "table" then return child end
    end
    return nil, "there is no element"
  end

  return { parse = parse }
end
