-- Shared by every script: the clock, type checks and the index entries.
--
-- A script's header names its keys with their types. Each key becomes a local of that name, and its type is checked first, unless
-- the header says `unchecked`.
--
-- Redis does not roll back a failed script, so each script checks everything it reads before it writes. A read-only server refuses
-- its first write, and so does a full one (unless the script only gives something up): nothing is half done.

local function clock()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- True if the key is absent or of the type.
local function is(key, kind)
  local t = redis.call('TYPE', key).ok
  return t == 'none' or t == kind
end

-- The integer in a decimal text; nil for anything else.
local function integer(text)
  if type(text) ~= 'string' or not string.match(text, '^%d+$') then return nil end
  return tonumber(text)
end

-- True for a whole number from 0.
local function whole(number)
  return type(number) == 'number' and number >= 0 and number % 1 == 0
end

-- True if this field is present and not a number.
local function bad(text)
  return text and not integer(text)
end

-- The size in bytes of an entry's fields.
local function weight(fields)
  local bytes = 0
  for _, part in ipairs(fields) do bytes = bytes + #part end
  return bytes
end

-- The version of an encoded record, `[version, kind, fields]` in msgpack; nil for other bytes.
local function record_version(data)
  local version = string.byte(data, 2)
  if string.byte(data, 1) ~= 0x93 or not version or version > 0x7f then return nil end
  return version
end

-- Whether a record is an encrypted one, `[version, 'sealed', {...}]` in msgpack.
local function is_sealed(data)
  return string.byte(data, 1) == 0x93 and string.sub(data, 3, 9) == '\166sealed'
end

-- A snapshot's place in the log; nil for other bytes.
local function snapshot_seq(snapshot)
  local ok, record = pcall(cmsgpack.unpack, snapshot)
  local fields = ok and type(record) == 'table' and record[3]
  local seq = type(fields) == 'table' and fields['seq']
  return type(seq) == 'number' and seq or nil
end

-- A claimed record's (see claim.lua) incarnation, worker, and bound if it has one; nil for any other record.
local function claim_of(record)
  if not record then return nil end
  local by, bound, worker = string.match(record, '^B|([^|]*)|(%d+)|(.*)$')
  if by then return by, worker, tonumber(bound) end
  by, worker = string.match(record, '^C|([^|]*)|(.*)$')
  return by, worker
end

-- What an owner or a guest reads of a conversation at `seq`: its log's `tail` after the snapshot, and its work's `records`. nil, and the
-- answer that says why, if the caller cannot read them: of a version above `readable`, or encrypted if it has no cipher (`opens`).
local function contents(log, runs, seq, snapshot, readable, opens)
  local from = 1
  if snapshot then
    local version = record_version(snapshot)
    if version and version > readable then return nil, {'newer', 'state', version} end
    if not opens and is_sealed(snapshot) then return nil, {'sealed'} end
    local at = version and snapshot_seq(snapshot)
    if not at or at > seq then return nil, {'corrupt', 'the head: the snapshot'} end
    from = at + 1
  end
  local tail = redis.call('XRANGE', log, string.format('%d-0', from), '+')
  if #tail ~= seq - from + 1 then
    return nil, {'corrupt', string.format('the log has %d entries after %d, the head is at %d', #tail, from - 1, seq)}
  end
  for i, entry in ipairs(tail) do
    if entry[1] ~= string.format('%d-0', from + i - 1) then return nil, {'corrupt', 'the log: the entry ' .. entry[1]} end
    local version = entry[2][1] == 'e' and record_version(entry[2][2])
    if not version then return nil, {'corrupt', 'the log: the entry ' .. entry[1]} end
    if version > readable then return nil, {'newer', 'log', version} end
    if not opens and is_sealed(entry[2][2]) then return nil, {'sealed'} end
  end
  local records = redis.call('HGETALL', runs)
  for i = 2, #records, 2 do
    if records[i] ~= 'R' and not string.match(records[i], '^[BCD]|[^|]*|') then return nil, {'corrupt', 'the runs: a record'} end
    if not opens and is_sealed(string.match(records[i], '^D|[^|]*|(.*)$') or '') then return nil, {'sealed'} end
  end
  return {tail = tail, records = records}
end

-- The answer {'visit', now, seq, snapshot, append id, entries} to a guest; nil if the conversation has an owner, is in quarantine, was
-- released as paused or was never started, or if the caller cannot read it (see `contents`).
local function visited(head, log, runs, readable, opens)
  local h = redis.call('HMGET', head, 'token', 'quarantine', 'paused', 'seq', 'snapshot', 'append_id')
  local seq = integer(h[4])
  if h[1] or h[2] or h[3] or not seq then return nil end
  local found = contents(log, runs, seq, h[5], readable, opens)
  return found and {'visit', clock(), seq, h[5] or '', h[6] or '', found.tail}
end

local function index_key(prefix, name, agent, other)
  if agent and other then return prefix .. name .. ':ax:' .. agent .. ':' .. other end
  if agent then return prefix .. name .. ':a:' .. agent end
  if other then return prefix .. name .. ':x:' .. other end
  return prefix .. name
end

-- A head's entry for the lists: {agent, status, created_at, number of open suspensions, true if it has grants or votes, what stopped
-- its last turn if anything did}; nil if it is malformed. In index version 1 a list of the open suspensions stands in place of their number.
local function standing(packed)
  local ok, idx = pcall(cmsgpack.unpack, packed)
  if not ok or type(idx) ~= 'table' then return nil end
  if type(idx[4]) == 'table' then idx[4] = #idx[4] end
  if type(idx[1]) ~= 'string' or type(idx[2]) ~= 'string' or type(idx[3]) ~= 'number' or type(idx[4]) ~= 'number' then return nil end
  return idx
end

-- The keys of a member: of the index of all, of its agent, of its status or kind, and of both.
local function keys_of(prefix, name, agent, other)
  return {index_key(prefix, name), index_key(prefix, name, agent), index_key(prefix, name, nil, other), index_key(prefix, name, agent, other)}
end

-- The member of a conversation in the lists, by key.
local function listed(prefix, conversation, idx)
  local found = {}
  if idx then
    local member = string.format('%015d|%s', idx[3], conversation)
    for _, key in ipairs(keys_of(prefix, 'conversations', idx[1], idx[2])) do found[key] = member end
    if idx[5] then found[prefix .. 'conversations:given'] = member end
    if idx[6] then found[prefix .. 'conversations:stopped'] = member end
  end
  return found
end

-- Whether these are suspensions: {{kind, member, the name of a further pending index, its member, ...}, ...}.
local function suspensions(told)
  for _, one in ipairs(told) do
    if type(one) ~= 'table' or #one < 2 or #one % 2 ~= 0 then return false end
    for _, part in ipairs(one) do if type(part) ~= 'string' then return false end end
  end
  return true
end

-- What to remove and add ({key, member, ...}) when a conversation's list entry changes and suspensions open and close; nil and the
-- reason if one of the keys is no sorted set.
local function changes(prefix, conversation, before, after, opened, closed)
  local gone, come = {}, {}
  if not before or before[1] ~= after[1] or before[2] ~= after[2] or before[3] ~= after[3] or before[5] ~= after[5] or before[6] ~= after[6] then
    local old, new = listed(prefix, conversation, before), listed(prefix, conversation, after)
    for key, member in pairs(old) do if new[key] ~= member then gone[#gone + 1], gone[#gone + 2] = key, member end end
    for key, member in pairs(new) do if old[key] ~= member then come[#come + 1], come[#come + 2] = key, member end end
  end
  for _, side in ipairs({{closed or {}, gone, before or after}, {opened or {}, come, after}}) do
    local into = side[2]
    for _, one in ipairs(side[1]) do
      for _, key in ipairs(keys_of(prefix, 'pending', side[3][1], one[1])) do into[#into + 1], into[#into + 2] = key, one[2] end
      for i = 3, #one, 2 do into[#into + 1], into[#into + 2] = prefix .. 'pending:' .. one[i], one[i + 1] end
    end
  end
  local sorted = {}
  for _, side in ipairs({gone, come}) do
    for i = 1, #side, 2 do
      local key = side[i]
      if not sorted[key] and not is(key, 'zset') then return nil, 'the index ' .. key .. ' is no sorted set' end
      sorted[key] = true
    end
  end
  return gone, come
end

local function change(gone, come)
  for i = 1, #gone, 2 do redis.call('ZREM', gone[i], gone[i + 1]) end
  for i = 1, #come, 2 do redis.call('ZADD', come[i], 0, come[i + 1]) end
end

local function kinds_and_members(told)
  local found = {}
  for i, one in ipairs(told or {}) do found[i] = one[1] .. ' ' .. one[2] end
  return table.concat(found, ' ')
end

-- Add to the bucket's stream of changes a conversation's new list entry after the events from `first` to `seq`, with the suspensions
-- that opened and closed, and those noted (one string). The stream is bounded, and only readers that follow
-- the lists depend on it: a failed write is ignored.
local CHANGES_KEPT = 2000
local function note_change(prefix, conversation, first, seq, packed, opened, closed, noted)
  redis.pcall('XADD', prefix .. 'changes', 'MAXLEN', '~', CHANGES_KEPT, '*', 'c', conversation, 'f', string.format('%d', first),
    's', string.format('%d', seq), 'i', packed, 'o', kinds_and_members(opened),
    'x', kinds_and_members(closed), 'n', noted or '')
end

-- Make a conversation need attention now, if not earlier, and tell the listeners.
local function look_now(attention, conversation, channel)
  local at = tonumber(redis.call('ZSCORE', attention, conversation) or 'inf')
  redis.call('ZADD', attention, string.format('%d', math.min(at, clock())), conversation)
  redis.call('PUBLISH', channel, conversation)
end

-- Give a short log its own size: Redis allocates 4 KB for a stream's last node, most of a short conversation's memory at rest. A copy is
-- as large as its content; longer logs are left alone, so this never copies more than a node.
local function shrink(log, copy)
  local nodes = nil
  local info = redis.pcall('XINFO', 'STREAM', log)
  for i = 1, #info - 1, 2 do
    if info[i] == 'radix-tree-keys' then nodes = info[i + 1] end
  end
  if nodes == 1 and redis.pcall('COPY', log, copy, 'REPLACE') == 1 then redis.call('RENAME', copy, log) end
end

-- Set when a conversation needs attention: at the lease's end while work is outstanding, at the earliest deadline, or when the departure
-- of a client has to be judged (`leaves`).
local function attend(key, conversation, busy, lease, due, leaves)
  local at = nil
  if busy == '1' and lease then at = lease end
  if due and due ~= '' and (not at or tonumber(due) < at) then at = tonumber(due) end
  leaves = integer(leaves)
  if leaves and (not at or leaves < at) then at = leaves end
  if at then
    redis.call('ZADD', key, string.format('%d', at), conversation)
  else
    redis.call('ZREM', key, conversation)
  end
end

-- Clients that execute calls. `clients` has what is known of each (`session|record`), by a digest of its name. `here` has them by until when
-- they are present, each with two letters before it: `k` or `c` (its end keeps or cancels what waits for it), `a` or `d` (it is attached, or
-- was detached).
local KINDS_OF_CLIENTS = {'ka', 'kd', 'ca', 'cd'}

-- Set when the departure of a client has to be judged: `after_ms` after the first client that cancels is gone.
local function note_leaves(head, here, attention, conversation, after_ms)
  local at, members = nil, redis.call('ZRANGE', here, 0, -1, 'WITHSCORES')
  for i = 1, #members, 2 do
    if not at and string.sub(members[i], 1, 1) == 'c' then at = tonumber(members[i + 1]) + after_ms end
  end
  local h = redis.call('HMGET', head, 'leaves', 'busy', 'due', 'quarantine', 'paused', 'seq')
  local stood, due, rests = integer(h[1]), integer(h[3]), h[2] ~= '1' or h[5]
  if at == stood or not h[6] then return end
  if at then redis.call('HSET', head, 'leaves', string.format('%d', at)) else redis.call('HDEL', head, 'leaves') end
  if h[4] then return end
  local looked_at = tonumber(redis.call('ZSCORE', attention, conversation) or 'inf')
  if at and at < looked_at then
    redis.call('ZADD', attention, string.format('%d', at), conversation)
  elseif stood and looked_at == stood and rests then -- else it needs attention for something else, too
    attend(attention, conversation, '0', nil, h[3], at and string.format('%d', at))
  end
end

-- The outbox. What a conversation owes a target is a queue: a sorted set of envelopes, `seq|n|kind|at`, in the order of the log. A lane is
-- a notification target, or all conversations together (`own`). Of each lane that a bucket has, three sorted sets hold the queues
-- (`conversation|target`) by when the first envelope is tried next (`owed:<lane>`) and by when that was owed (`owing:<lane>`), and the
-- envelopes that were set aside, by when (`aside:<lane>`). `owed` has the lanes, by their earliest try.
local function lane_of(target)
  return string.sub(target, 1, 4) == 'own:' and 'own' or target
end

local function queue_of(prefix, conversation, target)
  return prefix .. 'c:' .. conversation .. ':owed|' .. target
end

-- The key that is of another type than the outbox has for a target; nil if there is none.
local function ill_typed(prefix, conversation, target)
  local lane = lane_of(target)
  for _, key in ipairs({queue_of(prefix, conversation, target), prefix .. 'owed', prefix .. 'owed:' .. lane, prefix .. 'owing:' .. lane,
    prefix .. 'aside:' .. lane}) do
    if not is(key, 'zset') then return key end
  end
  for _, key in ipairs({prefix .. 'aside', prefix .. 'c:' .. conversation .. ':owed'}) do
    if not is(key, 'hash') then return key end
  end
end

-- An envelope's place in the log, its number there, and when it was owed; nil for other texts. Couriers (`envelope_of`) read all these.
local function parts_of(envelope)
  local seq, n, at = string.match(envelope, '^(%d+)|(%d+)|[%w_-]+|(%d+)$')
  if not seq or math.max(#seq, #n, #at) > 15 then return nil end
  return tonumber(seq), tonumber(n), tonumber(at)
end

-- Put an envelope into its queue, in the order of the log.
local function put(queue, envelope)
  local seq, n = parts_of(envelope)
  redis.call('ZADD', queue, string.format('%d', (seq or 0) * 1000 + math.min(n or 0, 999)), envelope)
end

-- Set when a lane is looked at next: in a day if it has nothing but envelopes that were set aside, so that old ones are dropped.
local function look_at_lane(prefix, lane)
  local first = redis.call('ZRANGE', prefix .. 'owed:' .. lane, 0, 0, 'WITHSCORES')
  if first[2] then redis.call('ZADD', prefix .. 'owed', first[2], lane)
  elseif redis.call('EXISTS', prefix .. 'aside:' .. lane) == 1 then
    redis.call('ZADD', prefix .. 'owed', string.format('%d', clock() + 86400000), lane)
  else redis.call('ZREM', prefix .. 'owed', lane) end
end

-- Have the first envelope of a queue tried at a time; a queue without one is forgotten.
local function try_at(prefix, conversation, target, at)
  local lane, member = lane_of(target), conversation .. '|' .. target
  local first = redis.call('ZRANGE', queue_of(prefix, conversation, target), 0, 0)[1]
  if first then
    local _, _, owed_at = parts_of(first)
    redis.call('ZADD', prefix .. 'owed:' .. lane, string.format('%d', at), member)
    redis.call('ZADD', prefix .. 'owing:' .. lane, string.format('%d', owed_at or at), member)
  else
    redis.call('ZREM', prefix .. 'owed:' .. lane, member)
    redis.call('ZREM', prefix .. 'owing:' .. lane, member)
    redis.call('HDEL', prefix .. 'c:' .. conversation .. ':owed', target, target .. '|why')
  end
  look_at_lane(prefix, lane)
end

-- Owe envelopes, {target, 'seq|n|kind', ...}, from now on. Whoever listens is told in which lanes.
local function owe(prefix, conversation, told, now, channel)
  local lanes = {}
  for i = 1, #told, 2 do
    local target = told[i]
    lanes[lane_of(target)] = true
    put(queue_of(prefix, conversation, target), told[i + 1] .. '|' .. string.format('%d', now))
    if not redis.call('ZSCORE', prefix .. 'owed:' .. lane_of(target), conversation .. '|' .. target) then
      try_at(prefix, conversation, target, now)
    end
  end
  for lane in pairs(lanes) do redis.pcall('PUBLISH', channel, conversation .. '|' .. lane) end
end
