-- Have a client be present in a conversation that was started, in place of an earlier one of its name.
--
-- KEYS  head (hash)   clients (hash: see `_prelude.lua`)   here (sorted set by time: see `_prelude.lua`)   attention (sorted set)
-- ARGV  1 conversation id   2 client   3 what its end does, k|c   4 session   5 record   6 for how many ms it is present
--       7 for how many ms clients that are gone are known   8 how many clients may be present   9 how many may be known
--       10 after how many ms without the client its departure has to be judged   11 how many may be known of one principal
--       12 how many characters of a client are its principal's
-- Returns {'ok', until} | {'missing'} | {'full', how many may be} | {'corrupt', what}
-- Clients that are gone and whose end cancels nothing are forgotten: after ARGV[7], and all of them (or of the client's principal) if
-- too many are known.

local conversation, client, gone_ms, kept_ms = ARGV[1], ARGV[2], integer(ARGV[6]), integer(ARGV[7])
local most, most_known, after_ms = integer(ARGV[8]), integer(ARGV[9]), integer(ARGV[10])
local most_own, of_principal = integer(ARGV[11]), integer(ARGV[12])
if not (gone_ms and kept_ms and most and most_known and after_ms and most_own and of_principal) or #client ~= 32 or (ARGV[3] ~= 'k' and ARGV[3] ~= 'c')
  or string.find(ARGV[4], '|', 1, true) then return {'corrupt', 'arguments'} end
if (integer(redis.call('HGET', head, 'seq')) or 0) == 0 then return {'missing'} end
local now, found = clock(), redis.call('ZRANGE', here, 0, -1, 'WITHSCORES')
local present, gone, known, own, own_gone = 0, {}, 0, 0, 0
for i = 1, #found, 2 do
  local other, ends = string.sub(found[i], 3), tonumber(found[i + 1])
  if other ~= client then
    local is_own = string.sub(other, 1, of_principal) == string.sub(client, 1, of_principal)
    known = known + 1
    if is_own then own = own + 1 end
    if ends > now then present = present + 1
    elseif string.sub(found[i], 1, 1) == 'k' then
      gone[#gone + 1] = {found[i], ends, is_own}
      if is_own then own_gone = own_gone + 1 end
    end
  end
end
local many, many_own = known >= most_known, own >= most_own
if present >= most or known - #gone >= most_known then return {'full', most} end
if own - own_gone >= most_own then return {'full', most_own} end

-- All is checked: write.
for _, one in ipairs(gone) do
  if many or (many_own and one[3]) or one[2] + kept_ms <= now then
    redis.call('ZREM', here, one[1])
    redis.call('HDEL', clients, string.sub(one[1], 3))
  end
end
for _, letters in ipairs(KINDS_OF_CLIENTS) do
  if letters ~= ARGV[3] .. 'a' then redis.call('ZREM', here, letters .. client) end
end
redis.call('ZADD', here, string.format('%d', now + gone_ms), ARGV[3] .. 'a' .. client)
redis.call('HSET', clients, client, ARGV[4] .. '|' .. ARGV[5])
redis.call('PERSIST', here)
redis.call('PERSIST', clients)
note_leaves(head, here, attention, conversation, after_ms)
return {'ok', now + gone_ms}
