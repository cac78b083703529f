-- `trace`: the trace id of a coroutine, which its log lines carry. Called with get() and set(id).
return function(trace)
  local get, set = trace.get, trace.set
  local node, sequence = 0, 0

  --- `setnode(n)`: the number of this process in its cluster, 16 bits.
  function trace.setnode(number)
    node = number & 0xffff
  end

  -- 16 bits each: the root's node, seconds, sequence, the parent's node.
  local function fresh()
    sequence = (sequence + 1) & 0xffff
    return node << 48 | (os.time() & 0xffff) << 32 | sequence << 16 | node
  end

  --- `spawn()` → old id: this coroutine begins a trace of its own.
  function trace.spawn()
    local old = get()
    set(fresh())
    return old
  end

  --- `attach(id)` → old id: continues another coroutine's trace in this one; nil for none.
  function trace.attach(id)
    local old = get()
    set(id or 0)
    return old
  end

  --- `propagate()` → id to hand to another process; begins a trace if there is none.
  function trace.propagate()
    local id = get()
    if id == 0 then
      id = fresh()
      set(id)
    end
    return id & ~0xffff | node
  end

  trace.get, trace.set = nil, nil
  return trace
end
