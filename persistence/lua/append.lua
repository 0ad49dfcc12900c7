-- Write events as the current owner, or as a guest of a conversation without one, all or nothing.
--
-- KEYS  head (hash)   log (stream)   copy (unchecked stream: the log while it is copied, else absent)   known (hash)   runs (hash)   attention (sorted set)
--       abandoned (hash: effect id -> 'incarnation|until': runs that outlive their settled calls; it expires)
--       passing (hash: records of requests that changed nothing, and '#', how many there were, '#<place>', the key at each place)
--       Index keys (sorted sets), the changes (stream) and the channel of live events are made from the bucket's prefix;
--       they share the slot.
-- ARGV  1 the write, a map in msgpack; suspensions are as `suspensions` checks them
--   token, append_id      of the owner ('' for a guest), and of this write
--   seen                  of a guest: the id of the last append, as it was read; '' before the start
--   claim                 of a guest, absent if it needs none: an effect, and the incarnation whose claim of it must stand ('': nobody may have claimed it)
--   until_ms              from when on nothing is written, in ms; absent if at any time
--   conversation, prefix  the conversation's id, and the prefix of its bucket's keys
--   expected              the seq after which the events come
--   lease_ms              for how long the lease is renewed; after a guest's write, when outstanding work needs attention
--   events                their entries in the log
--   snapshot              of the state after them; absent if none is written
--   index                 packed entry in the lists, '' before the start
--   busy, progress        whether work is outstanding; whether the events are a step of progress, which clears the strikes
--   due, grants           the earliest deadline; the epoch of grants, once one was revoked; absent if there is none
--   absent                ids that must not be known
--   known, passing        ids and records, alternating
--   most_passing, passing_ms  how many passing ids a conversation has, and for how many ms they are kept
--   add, remove           the runs to add and to remove
--   opened, closed        the suspensions that open, and that close
--   noted                 open suspensions with a new vote, comment or assignment, separated by spaces
--   owed, courier         what the events owe: targets and envelopes without their time, alternating; the channel of the courier; absent if nothing
--   spent                 what the answers add to what their agent uses on a day: the agent and the day, tokens, billionths of a US dollar, and for how
--                         many ms the sums are kept; absent if its turns have no such budget
--   quarantine_owes       the targets that a quarantine would have to be told to, a list in msgpack; absent if there are none
-- Returns {'ok', now, effect id, record, ...} with the claims that it removes | {'fenced'} | {'known', now, key, value, ...}, without keys if it is too late | {'corrupt', what}

local UNBOUND_MS = 86400000
local ok, w = pcall(cmsgpack.unpack, ARGV[1])
if not ok or type(w) ~= 'table' then return {'corrupt', 'arguments'} end
for _, name in ipairs({'expected', 'lease_ms', 'most_passing', 'passing_ms', w.due and 'due' or 'expected', w.grants and 'grants' or 'expected', w.until_ms and 'until_ms'}) do
  if not whole(w[name]) then return {'corrupt', 'arguments: ' .. name .. ' is no number'} end
end
for _, name in ipairs({'token', 'append_id', 'conversation', 'prefix', 'index', 'noted', w.seen and 'seen' or 'token', w.snapshot and 'snapshot', w.owed and 'courier', w.quarantine_owes and 'quarantine_owes'}) do
  if type(w[name]) ~= 'string' then return {'corrupt', 'arguments: ' .. name .. ' is no text'} end
end
for _, name in ipairs({'events', 'absent', 'known', 'passing', 'add', 'remove', 'opened', 'closed', w.claim and 'claim', w.owed and 'owed', w.spent and 'spent'}) do
  if type(w[name]) ~= 'table' then return {'corrupt', 'arguments: ' .. name .. ' is no list'} end
end
for _, name in ipairs({'known', 'passing'}) do
  if #w[name] % 2 ~= 0 then return {'corrupt', 'arguments: ' .. name .. ' is odd'} end
end
if not (suspensions(w.opened) and suspensions(w.closed)) then return {'corrupt', 'arguments: the suspensions'} end
for _, name in ipairs({'busy', 'progress'}) do
  if type(w[name]) ~= 'boolean' then return {'corrupt', 'arguments: ' .. name} end
end
if (w.token == '') ~= (w.seen ~= nil) or w.append_id == '' then return {'corrupt', 'arguments: an empty token or append id'} end
local conversation, prefix, packed = w.conversation, w.prefix, w.index
local busy, due = w.busy and '1' or '0', w.due and string.format('%d', w.due) or ''
for i = 1, #(w.owed or {}), 2 do
  if type(w.owed[i]) ~= 'string' or type(w.owed[i + 1]) ~= 'string' then return {'corrupt', 'arguments: what is owed'} end
end
if w.spent and not (type(w.spent[1]) == 'string' and whole(w.spent[2]) and whole(w.spent[3]) and whole(w.spent[4])) then
  return {'corrupt', 'arguments: what was spent'}
end
local passed = #w.passing == 0 or integer(redis.call('HGET', passing, '#') or '0')
if not passed then return {'corrupt', 'the passing ids: their number'} end

local now = clock()
local h = redis.call('HMGET', head, 'token', 'seq', 'append_id', 'index', 'struck_by', 'quarantine', 'paused', 'epoch', 'owes', 'busy', 'leaves')
if w.seen then
  if bad(h[8]) then return {'corrupt', 'the head: its epoch'} end
  local claimed = not w.claim or h[3] == w.append_id
  if not claimed then
    local run = redis.call('HGET', runs, w.claim[1])
    if w.claim[2] == '' then claimed = run == 'R' else claimed = claim_of(run) == w.claim[2] end
  end
  if h[3] ~= w.append_id and (h[1] or h[6] or h[7] or (h[3] or '') ~= w.seen or not claimed) then return {'fenced'} end
elseif h[1] ~= w.token then return {'fenced'} end
if h[3] == w.append_id then return {'ok', now} end
local seq = tonumber(h[2] or '0')
if seq ~= w.expected then
  return {'corrupt', string.format('the head is at %s, the writer at %d', h[2] or '0', w.expected)}
end
local last = redis.call('XREVRANGE', log, '+', '-', 'COUNT', 1)
local last_id = last[1] and last[1][1] or '0-0'
if last_id ~= string.format('%d-0', seq) then
  return {'corrupt', string.format('the log ends at %s, the head at %d', last_id, seq)}
end

local found = {'known', now}
for _, id in ipairs(w.absent) do
  local value = redis.call('HGET', known, id) or redis.call('HGET', passing, id)
  if value then
    found[#found + 1] = id
    found[#found + 1] = value
  end
end
if #found > 2 or (w.until_ms and now >= w.until_ms) then return found end
if w.seen and seq == 0 and #w.events == 0 then return {'ok', now} end -- a start that was refused leaves nothing

local gone, come = {}, {}
local stands_otherwise = packed ~= (h[4] or '') or #w.opened + #w.closed > 0
if stands_otherwise then
  local before, after = nil, nil
  if h[4] and h[4] ~= '' then
    before = standing(h[4])
    if not before then return {'corrupt', 'the head: the index entries'} end
  end
  after = standing(packed)
  if not after then return {'corrupt', 'arguments: the index entries'} end
  local what
  gone, what = changes(prefix, conversation, before, after, w.opened, w.closed)
  if not gone then return {'corrupt', what} end
  come = what
end

for i = 1, #(w.owed or {}), 2 do
  local key = ill_typed(prefix, conversation, w.owed[i])
  if key then return {'corrupt', 'the outbox: ' .. key .. ' has another type'} end
end

-- All is checked but one thing: entries that were added and deleted again show only in XADD's refusal, so it comes first.
for i, entry in ipairs(w.events) do
  local added = redis.pcall('XADD', log, string.format('%d-0', seq + i), 'e', entry)
  if type(added) == 'table' and added.err then
    if string.find(added.err, 'XADD', 1, true) then return {'corrupt', 'the log: ' .. added.err} end
    return added
  end
end
local lease, last_seq = now + w.lease_ms, seq + #w.events
local fields = {'seq', string.format('%d', last_seq), 'append_id', w.append_id, 'busy', busy, 'due', due, 'index', packed,
  w.seen and 'epoch' or 'lease', string.format('%d', w.seen and tonumber(h[8] or '0') + 1 or lease)}
if #w.events > 0 then fields[#fields + 1], fields[#fields + 2] = 'at', string.format('%d', now) end
if w.grants then fields[#fields + 1], fields[#fields + 2] = 'grants', string.format('%d', w.grants) end
if w.snapshot then fields[#fields + 1], fields[#fields + 2] = 'snapshot', w.snapshot end
if w.quarantine_owes and w.quarantine_owes ~= h[9] then fields[#fields + 1], fields[#fields + 2] = 'owes', w.quarantine_owes end
redis.call('HSET', head, unpack(fields))
if h[9] and not w.quarantine_owes then redis.call('HDEL', head, 'owes') end
if seq == 0 and #w.events > 0 then redis.call('PERSIST', head) end
for i = 1, #w.known, 1000 do redis.call('HSET', known, unpack(w.known, i, math.min(i + 999, #w.known))) end
for i = 1, #w.passing, 2 do
  local key = w.passing[i]
  passed = passed + 1
  local place = string.format('#%d', passed % w.most_passing)
  local oldest = redis.call('HGET', passing, place)
  if oldest then redis.call('HDEL', passing, oldest) end
  redis.call('HSET', passing, '#', string.format('%d', passed), place, key, key, w.passing[i + 1])
  redis.call('PEXPIRE', passing, string.format('%d', w.passing_ms))
end
for _, id in ipairs(w.add) do redis.call('HSETNX', runs, id, 'R') end
local answer = {'ok', now}
for _, id in ipairs(w.remove) do
  local record = redis.call('HGET', runs, id)
  local by, _, bound = claim_of(record)
  if by then
    answer[#answer + 1] = id
    answer[#answer + 1] = record
    -- Runs only: an abandoned model call matters to nobody. The run whose outcome this is has ended.
    if string.find(id, '#', 1, true) and not (w.claim and w.claim[1] == id) then
      local ends = bound or now + UNBOUND_MS
      redis.call('HSET', abandoned, id, by .. '|' .. string.format('%d', ends))
      local claims = redis.call('HGETALL', abandoned)
      for j = 2, #claims, 2 do
        local till = integer(string.match(claims[j], '(%d+)$')) or 0
        if till <= now then redis.call('HDEL', abandoned, claims[j - 1]) else ends = math.max(ends, till) end
      end
      redis.call('PEXPIRE', abandoned, string.format('%d', ends - now))
    end
  end
  redis.call('HDEL', runs, id)
end
if w.progress and h[5] then redis.call('HDEL', head, 'strikes', 'struck_by', 'company') end
change(gone, come)
if w.spent then
  local sums = prefix .. 'spent:' .. w.spent[1]
  local kind = redis.call('TYPE', sums)
  if (kind.ok or kind) ~= 'hash' then redis.call('DEL', sums) end -- a paid answer is recorded, whatever stands there
  redis.pcall('HINCRBY', sums, 'tokens', string.format('%d', w.spent[2]))
  redis.pcall('HINCRBY', sums, 'nano_usd', string.format('%d', w.spent[3]))
  redis.call('PEXPIRE', sums, string.format('%d', w.spent[4]))
end
if w.owed then owe(prefix, conversation, w.owed, now, w.courier) end
if w.seen and w.busy and h[10] == '1' then lease = math.min(lease, tonumber(redis.call('ZSCORE', attention, conversation) or 'inf')) end
attend(attention, conversation, busy, lease, due, h[11])
if w.seen and not w.busy then shrink(log, copy) end
if stands_otherwise or w.noted ~= '' then
  note_change(prefix, conversation, seq + 1, last_seq, packed, w.opened, w.closed, w.noted)
end
-- Wake the log's followers; the write stands even if this fails.
if #w.events > 0 then redis.pcall('PUBLISH', prefix .. 'c:' .. conversation .. ':live', '#') end
return answer
