-- Read the pauses as of one moment.
--
-- KEYS  1 pauses (hash)
-- Returns {'ok', now, {whose, record, ...}} | {'corrupt', what}

if not is(KEYS[1], 'hash') then return {'corrupt', 'the pauses are no hash'} end
return {'ok', clock(), redis.call('HGETALL', KEYS[1])}
