local http = require "silly.net.http"
local json = require "silly.encoding.json"
local test = require "tide.test"
local api = require "api"

describe("the API", function()
  local listener, url

  before_each(function()
    listener = assert(http.listen { addr = "127.0.0.1:0", handler = api.new { notes_max = 2 } })
    url = "http://" .. listener.addr
  end)

  after_each(function() listener:close() end)

  local function post(text)
    return assert(http.post(url .. "/notes", {}, json.encode { text = text }))
  end

  it("is healthy", function()
    test.equal(assert(http.get(url .. "/healthz")).status, 200)
  end)

  it("stores a note", function()
    local response = post "buy milk"
    test.equal(response.status, 201)
    test.equal(json.decode(response.body), { id = 1, text = "buy milk" })
    test.equal(json.decode(assert(http.get(url .. "/notes/1")).body).text, "buy milk")
  end)

  it("refuses what is not a note", function()
    test.equal(assert(http.post(url .. "/notes", {}, "{}")).status, 400)
    test.equal(assert(http.get(url .. "/notes/7")).status, 404)
    test.equal(assert(http.get(url .. "/nowhere")).status, 404)
  end)

  it("holds as many notes as configured", function()
    test.equal(post("one").status, 201)
    test.equal(post("two").status, 201)
    test.equal(post("three").status, 507)
  end)
end)
