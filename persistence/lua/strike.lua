-- Count a process crash against a conversation; at the limit, put the conversation in quarantine and depose its owner.
--
-- KEYS  head (hash)   attention (sorted set)
--       Index keys (sorted sets) are made from the bucket's prefix, ARGV[6]; they share the slot.
-- ARGV  1 the owner's token as the caller has seen it, '' if there was none   2 the process that died   3 limit   4 reason   5 conversation id   6 bucket prefix
--       7 how many claims the process had   8 up to how many claims each one's conversation gets a strike   9 the channel of the courier
-- Returns {'ok', strikes, 1 if in quarantine now, else 0, company} | {'fenced'} | {'corrupt', what}
-- Company is the most claims at once of a process that runs this conversation's work; 0 for any number. A death with more claims
-- than ARGV[8] is no strike, but halves it. It only shrinks, so a wrong number of claims cannot prolong the search.
-- One process's death counts once, however many effects ended with it and however often it is reported, also after a retry.
-- Neither snapshot nor log is read, and unreadable index entries stay: a broken conversation can be set aside too.

local conversation, prefix = ARGV[5], ARGV[6]
local limit, claims, small = integer(ARGV[3]), integer(ARGV[7]), integer(ARGV[8])
if not limit or not claims or not small or limit == 0 or ARGV[2] == '' or string.find(ARGV[2], ',', 1, true) then return {'corrupt', 'arguments'} end
local h = redis.call('HMGET', head, 'token', 'strikes', 'struck_by', 'index', 'seq', 'quarantine', 'company', 'owes')
if (h[1] or '') ~= ARGV[1] or not h[5] or h[6] then return {'fenced'} end
if bad(h[2]) or bad(h[7]) then return {'corrupt', 'the head: a number is malformed'} end
local strikes = tonumber(h[2] or '0')
local counted, company = h[3] or ',', tonumber(h[7] or '0')
if not string.find(counted, ',' .. ARGV[2] .. ',', 1, true) then
  local among = company > 0 and math.min(company, claims) or claims
  if among > small then company = math.floor(among / 2) else strikes, company = strikes + 1, 1 end
  counted = counted .. ARGV[2] .. ','
end
local before = standing(h[4] or '') -- nil if unreadable
local after, gone, come = nil, {}, {}
if before then
  after = {before[1], 'quarantined', before[3], before[4], before[5], before[6]}
  gone, come = changes(prefix, conversation, before, after)
  if not gone then return {'corrupt', come} end
end
local owed = {} -- the targets that the head names; one that cannot be told must not keep the conversation from quarantine
local ok, targets = pcall(cmsgpack.unpack, h[8] or '')
for _, target in ipairs(ok and type(targets) == 'table' and targets or {}) do
  if type(target) == 'string' and not ill_typed(prefix, conversation, target) then
    owed[#owed + 1], owed[#owed + 2] = target, (integer(h[5]) and h[5] or '0') .. '|999|quarantined'
  end
end

-- Everything is checked: write.
redis.call('HSET', head, 'strikes', string.format('%d', strikes), 'struck_by', counted, 'company', string.format('%d', company))
if strikes < limit then return {'ok', strikes, 0, company} end
redis.call('HSET', head, 'quarantine', ARGV[4], 'quarantined_at', string.format('%d', clock()))
if before then redis.call('HSET', head, 'plain_index', cmsgpack.pack(before), 'index', cmsgpack.pack(after)) end
redis.call('HDEL', head, 'token', 'holder', 'lease')
redis.call('ZREM', attention, conversation)
change(gone, come)
if #owed > 0 then owe(prefix, conversation, owed, clock(), ARGV[9]) end
local seq = integer(h[5]) or 0
if after then note_change(prefix, conversation, seq + 1, seq, cmsgpack.pack(after)) end
return {'ok', strikes, 1, company}
