-- Shared by every script: the clock, type checks and the index entries.
--
-- Redis does not roll a failing script back, so each script first checks everything it reads and only then writes; the first write
-- is one that a read-only or (unless it only gives up) a full server refuses, so nothing is half done.

local function clock()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- True if the key is absent or of the type.
local function is(key, kind)
  local t = redis.call('TYPE', key).ok
  return t == 'none' or t == kind
end

-- Integers come as decimal text; anything else is nil.
local function integer(text)
  if type(text) ~= 'string' or not string.match(text, '^%d+$') then return nil end
  return tonumber(text)
end

-- True if what the head holds in place of a number is none; an absent one is fine.
local function bad(text)
  return text and not integer(text)
end

-- The version of an encoded record, `[version, kind, fields]` in msgpack; nil if it is none.
local function record_version(data)
  local version = string.byte(data, 2)
  if string.byte(data, 1) ~= 0x93 or not version or version > 0x7f then return nil end
  return version
end

-- The place in the log that a snapshot was taken at; nil if it is no snapshot.
local function snapshot_seq(snapshot)
  local ok, record = pcall(cmsgpack.unpack, snapshot)
  local fields = ok and type(record) == 'table' and record[3]
  local seq = type(fields) == 'table' and fields['seq']
  return type(seq) == 'number' and seq or nil
end

local function index_key(prefix, name, agent, other)
  if agent and other then return prefix .. name .. ':ax:' .. agent .. ':' .. other end
  if agent then return prefix .. name .. ':a:' .. agent end
  if other then return prefix .. name .. ':x:' .. other end
  return prefix .. name
end

-- The (key, member) pairs of packed index entries: {agent, status, created_at, {{created_at, suspension, kind, seq}, ...}}.
local function entries(prefix, conversation, packed)
  local found = {}
  if not packed or packed == '' then return found end
  local idx = cmsgpack.unpack(packed)
  local agent, status = idx[1], idx[2]
  local function add(name, other, member)
    found[index_key(prefix, name) .. '\0' .. member] = true
    found[index_key(prefix, name, agent) .. '\0' .. member] = true
    found[index_key(prefix, name, nil, other) .. '\0' .. member] = true
    found[index_key(prefix, name, agent, other) .. '\0' .. member] = true
  end
  add('conversations', status, string.format('%015d|%s', idx[3], conversation))
  for _, p in ipairs(idx[4]) do
    add('pending', p[3], string.format('%015d|%s|%s|%d', p[1], p[2], conversation, p[4]))
  end
  return found
end

local function split(pair)
  local cut = string.find(pair, '\0', 1, true)
  return string.sub(pair, 1, cut - 1), string.sub(pair, cut + 1)
end

-- What index entries go and come between two packed sets, as (key, member) pairs; nil and why, if one of them cannot be read.
local function changes(prefix, conversation, before, after)
  local ok, new = pcall(entries, prefix, conversation, after)
  if not ok then return nil, 'arguments: the index entries' end
  local okay, old = pcall(entries, prefix, conversation, before)
  if not okay then return nil, 'the head: the index entries' end
  local gone, come = {}, {}
  for pair in pairs(old) do if not new[pair] then gone[#gone + 1] = pair end end
  for pair in pairs(new) do if not old[pair] then come[#come + 1] = pair end end
  for _, pairs_ in ipairs({gone, come}) do
    for _, pair in ipairs(pairs_) do
      local key = split(pair)
      if not is(key, 'zset') then return nil, 'the index ' .. key .. ' is no sorted set' end
    end
  end
  return gone, come
end

local function change(gone, come)
  for _, pair in ipairs(gone) do
    local key, member = split(pair)
    redis.call('ZREM', key, member)
  end
  for _, pair in ipairs(come) do
    local key, member = split(pair)
    redis.call('ZADD', key, 0, member)
  end
end

-- Packed index entries as they are while the conversation is in quarantine.
local function quarantined(packed)
  local idx = cmsgpack.unpack(packed)
  idx[2] = 'quarantined'
  return cmsgpack.pack(idx)
end

-- When a conversation must be looked at: the lease's end while work is outstanding, and the earliest deadline.
local function attend(key, conversation, busy, lease, due)
  local at = nil
  if busy == '1' and lease then at = lease end
  if due and due ~= '' and (not at or tonumber(due) < at) then at = tonumber(due) end
  if at then
    redis.call('ZADD', key, string.format('%d', at), conversation)
  else
    redis.call('ZREM', key, conversation)
  end
end
