-- Write events as the current owner, all or nothing.
--
-- KEYS  1 head (hash)   2 log (stream)   3 known (hash)   4 runs (hash)   5 attention (sorted set)
--       6 abandoned runs (hash: effect id -> 'incarnation|until'): those that go on though their calls are settled; it expires
--       7 passing (hash): records of requests that changed nothing, and '#', how many there were, '#<place>', the key at each place
--       Index keys (sorted sets), the changes (stream) and the channel of live events are made from the bucket's prefix, ARGV[6];
--       they share the slot.
-- ARGV  1 token   2 append id   3 expected seq   4 lease in ms   5 conversation id   6 bucket prefix
--       7 snapshot or ''   8 busy 0|1   9 earliest deadline or ''   10 packed standing in the lists, '' before the start
--       11 number of events   12 of ids that must be absent   13 of known pairs   14 of runs to add   15 of runs to remove
--       16 1 if the events are a step of progress, which clears the strikes, else 0
--       17 number of suspensions that open   18 of those that close   19 the epoch of grants, '' before one was revoked
--       20 suspensions that stay open, and of which there is something else to say: each as below, parted by spaces
--       21 number of passing pairs   22 how many a conversation has   23 for how many ms they are kept
--       then those, in the order of their numbers, and passing pairs after known ones; a suspension is its kind and its member in the pending indexes.
-- Returns {'ok', now, effect id, record, ...} with the claims that it removes | {'fenced'} | {'known', now, key, value, ...} | {'corrupt', what}

local head, log, known, runs, attention, abandoned, passing = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local token, append_id, conversation, prefix = ARGV[1], ARGV[2], ARGV[5], ARGV[6]
local snapshot, busy, due, packed = ARGV[7], ARGV[8], ARGV[9], ARGV[10]
local expected, lease_ms = integer(ARGV[3]), integer(ARGV[4])
local n_events, n_absent, n_known = integer(ARGV[11]), integer(ARGV[12]), integer(ARGV[13])
local n_add, n_remove, progress = integer(ARGV[14]), integer(ARGV[15]), ARGV[16]
local n_opened, n_closed = integer(ARGV[17]), integer(ARGV[18])
local epoch, noted = ARGV[19], ARGV[20]
local n_passing, most_passing, passing_ms = integer(ARGV[21]), integer(ARGV[22]), integer(ARGV[23])
local fixed, UNBOUND_MS = 23, 86400000

if not (expected and lease_ms and n_events and n_absent and n_known and n_add and n_remove and n_opened and n_closed) then
  return {'corrupt', 'arguments: a number is missing'}
end
if not (n_passing and most_passing and passing_ms) then return {'corrupt', 'arguments: passing'} end
if #ARGV ~= fixed + n_events + n_absent + 2 * (n_known + n_passing) + n_add + n_remove + 2 * n_opened + 2 * n_closed then
  return {'corrupt', 'arguments: their number does not fit'}
end
if busy ~= '0' and busy ~= '1' then return {'corrupt', 'arguments: busy'} end
if progress ~= '0' and progress ~= '1' then return {'corrupt', 'arguments: progress'} end
if due ~= '' and not integer(due) then return {'corrupt', 'arguments: deadline'} end
if epoch ~= '' and not integer(epoch) then return {'corrupt', 'arguments: the epoch of grants'} end
if token == '' or append_id == '' then return {'corrupt', 'arguments: an empty token or append id'} end
if not is(head, 'hash') then return {'corrupt', 'the head is no hash'} end
if not is(log, 'stream') then return {'corrupt', 'the log is no stream'} end
if not is(known, 'hash') then return {'corrupt', 'the known ids are no hash'} end
if not is(runs, 'hash') then return {'corrupt', 'the runs are no hash'} end
if not is(attention, 'zset') then return {'corrupt', 'the attention index is no sorted set'} end
if not is(abandoned, 'hash') then return {'corrupt', 'the abandoned runs are no hash'} end
if not is(passing, 'hash') then return {'corrupt', 'the passing ids are no hash'} end
local passed = integer(redis.call('HGET', passing, '#') or '0')
if not passed then return {'corrupt', 'the passing ids: their number'} end

local now = clock()
local h = redis.call('HMGET', head, 'token', 'seq', 'append_id', 'index', 'struck_by')
if h[1] ~= token then return {'fenced'} end
if h[3] == append_id then return {'ok', now} end
local seq = tonumber(h[2] or '0')
if seq ~= expected then
  return {'corrupt', string.format('the head is at %s, the writer at %d', h[2] or '0', expected)}
end
local last = redis.call('XREVRANGE', log, '+', '-', 'COUNT', 1)
local last_id = last[1] and last[1][1] or '0-0'
if last_id ~= string.format('%d-0', seq) then
  return {'corrupt', string.format('the log ends at %s, the head at %d', last_id, seq)}
end

local at = fixed + n_events
if n_absent > 0 then
  local found = {'known', now}
  for i = at + 1, at + n_absent do
    local value = redis.call('HGET', known, ARGV[i]) or redis.call('HGET', passing, ARGV[i])
    if value then
      found[#found + 1] = ARGV[i]
      found[#found + 1] = value
    end
  end
  if #found > 2 then return found end
end

local gone, come, opened, closed = {}, {}, {}, {}
local stands_otherwise = packed ~= (h[4] or '') or n_opened + n_closed > 0
if stands_otherwise then
  local before, after = nil, nil
  if h[4] and h[4] ~= '' then
    before = standing(h[4])
    if not before then return {'corrupt', 'the head: the index entries'} end
  end
  after = standing(packed)
  if not after then return {'corrupt', 'arguments: the index entries'} end
  local from = #ARGV - 2 * n_closed - 2 * n_opened
  for i = from + 1, from + 2 * n_opened do opened[#opened + 1] = ARGV[i] end
  for i = from + 2 * n_opened + 1, #ARGV do closed[#closed + 1] = ARGV[i] end
  local what
  gone, what = changes(prefix, conversation, before, after, opened, closed)
  if not gone then return {'corrupt', what} end
  come = what
end

-- Everything is checked but one thing: entries that were added and deleted again show only in XADD's refusal, so it comes first.
for i = 1, n_events do
  local added = redis.pcall('XADD', log, string.format('%d-0', seq + i), 'e', ARGV[fixed + i])
  if type(added) == 'table' and added.err then
    if string.find(added.err, 'XADD', 1, true) then return {'corrupt', 'the log: ' .. added.err} end
    return added
  end
end
local lease = now + lease_ms
redis.call('HSET', head, 'seq', string.format('%d', seq + n_events), 'append_id', append_id, 'busy', busy, 'due', due,
  'index', packed, 'lease', string.format('%d', lease))
if epoch ~= '' then redis.call('HSET', head, 'grants', epoch) end
if n_events > 0 then redis.call('HSET', head, 'at', string.format('%d', now)) end
if seq == 0 and n_events > 0 then redis.call('PERSIST', head) end
if snapshot ~= '' then redis.call('HSET', head, 'snapshot', snapshot) end
at = at + n_absent
for i = 1, n_known do
  redis.call('HSET', known, ARGV[at + 2 * i - 1], ARGV[at + 2 * i])
end
at = at + 2 * n_known
for i = 1, n_passing do
  local key = ARGV[at + 2 * i - 1]
  passed = passed + 1
  local place = string.format('#%d', passed % most_passing)
  local oldest = redis.call('HGET', passing, place)
  if oldest then redis.call('HDEL', passing, oldest) end
  redis.call('HSET', passing, '#', string.format('%d', passed), place, key, key, ARGV[at + 2 * i])
  redis.call('PEXPIRE', passing, passing_ms)
end
at = at + 2 * n_passing
for i = 1, n_add do redis.call('HSETNX', runs, ARGV[at + i], 'R') end
at = at + n_add
local answer = {'ok', now}
for i = 1, n_remove do
  local record = redis.call('HGET', runs, ARGV[at + i])
  local by, _, bound = claim_of(record)
  if by then
    answer[#answer + 1] = ARGV[at + i]
    answer[#answer + 1] = record
    if string.find(ARGV[at + i], '#', 1, true) then -- a run; nobody waits for the end of a model call
      local ends = bound or now + UNBOUND_MS
      redis.call('HSET', abandoned, ARGV[at + i], by .. '|' .. string.format('%d', ends))
      local claims = redis.call('HGETALL', abandoned)
      for j = 2, #claims, 2 do
        local till = integer(string.match(claims[j], '(%d+)$')) or 0
        if till <= now then redis.call('HDEL', abandoned, claims[j - 1]) else ends = math.max(ends, till) end
      end
      redis.call('PEXPIRE', abandoned, string.format('%d', ends - now))
    end
  end
  redis.call('HDEL', runs, ARGV[at + i])
end
if progress == '1' and h[5] then redis.call('HDEL', head, 'strikes', 'struck_by', 'company') end
change(gone, come)
attend(attention, conversation, busy, lease, due)
if stands_otherwise or noted ~= '' then
  note_change(prefix, conversation, seq + 1, seq + n_events, packed, opened, closed, noted)
end
-- Those who follow the log read on; it is written, whether or not they can be told.
if n_events > 0 then redis.pcall('PUBLISH', prefix .. 'c:' .. conversation .. ':live', '#') end
return answer
