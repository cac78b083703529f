-- `net.http.helper`: the text forms that HTTP scripts need.
return function(raw, check)
  local helper = {}

  local function escape(text)
    return (tostring(text):gsub("[^%w%-._~]", function(char) return ("%%%02X"):format(char:byte()) end))
  end

  --- `urlencode(string | table)`: a table becomes `name=value&…`, sorted by name; a value that is an
  --- array is repeated.
  function helper.urlencode(value)
    if type(value) ~= "table" then
      if type(value) ~= "string" and type(value) ~= "number" then check("urlencode", 1, value, "string") end
      return escape(value)
    end
    local names = {}
    for name in pairs(value) do names[#names + 1] = tostring(name) end
    table.sort(names)
    local pieces = {}
    for _, name in ipairs(names) do
      local of = value[name]
      if of == nil then of = value[tonumber(name)] end
      for _, each in ipairs(type(of) == "table" and of or { of }) do
        pieces[#pieces + 1] = escape(name) .. "=" .. escape(each)
      end
    end
    return table.concat(pieces, "&")
  end

  --- `urldecode(string)`: `+` is a space; a malformed escape stays as it is.
  function helper.urldecode(text)
    check("urldecode", 1, text, "string")
    return (text:gsub("%+", " "):gsub("%%(%x%x)", function(hex) return string.char(tonumber(hex, 16)) end))
  end

  local PORTS = { http = "80", https = "443", ws = "80", wss = "443" }

  --- `parseurl(url) → scheme, host, port, path, isdefault | nil, err`: the port as text, the path with
  --- its query; the last is true if the URL has no port.
  function helper.parseurl(url)
    check("parseurl", 1, url, "string")
    local scheme, rest = url:match("^(%a[%w+.-]*)://([^#]*)")
    if not scheme then return nil, "Invalid url" end
    scheme = scheme:lower()
    local authority, path = rest:match("^([^/?]*)(.*)$")
    authority = authority:match("@(.*)$") or authority
    local host, port = authority:match("^%[(.-)%]:?(%d*)$")
    if not host then host, port = authority:match("^([^:]*):?(%d*)$") end
    if not host or host == "" then return nil, "Invalid url" end
    local default = port == nil or port == ""
    if default then port = PORTS[scheme] end
    if not port then return nil, "Unsupported scheme" end
    if path:sub(1, 1) ~= "/" then path = "/" .. path end
    return scheme, host, port, path, default
  end

  --- `parsetarget(target) → path, query`: the query as a table; an empty path is "/".
  function helper.parsetarget(target)
    check("parsetarget", 1, target, "string")
    local path, query = target:match("^([^?#]*)%??([^#]*)")
    return path == "" and "/" or path, raw.query(query)
  end

  local NAMED = {
    amp = "&", lt = "<", gt = ">", quot = '"', apos = "'", nbsp = " ", copy = "\u{a9}",
    reg = "\u{ae}", trade = "\u{2122}", hellip = "\u{2026}", mdash = "\u{2014}", ndash = "\u{2013}",
    lsquo = "\u{2018}", rsquo = "\u{2019}", ldquo = "\u{201c}", rdquo = "\u{201d}", laquo = "\u{ab}",
    raquo = "\u{bb}", euro = "\u{20ac}", pound = "\u{a3}", yen = "\u{a5}", cent = "\u{a2}",
    deg = "\u{b0}", middot = "\u{b7}", times = "\u{d7}", bull = "\u{2022}",
  }

  --- `htmlunescape(string)`: numeric references and the common names, `&nbsp;` as a plain space as in
  --- Silly; unknown references stay as they are.
  function helper.htmlunescape(text)
    check("htmlunescape", 1, text, "string")
    return (text:gsub("&(#?)([%w]+);", function(hash, name)
      if hash == "" then return NAMED[name] end
      local code = tonumber(name:match("^[xX](%x+)$") or "", 16) or tonumber(name:match("^%d+$"))
      if code and code > 0 and code <= 0x10ffff and (code < 0xd800 or code > 0xdfff) then
        return utf8.char(code)
      end
    end))
  end

  return helper
end
