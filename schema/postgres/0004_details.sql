-- What the last error says for programs, as JSON.
ALTER TABLE _oncehost_deliveries ADD COLUMN details TEXT;
ALTER TABLE _oncehost_steps ADD COLUMN details TEXT;

-- Tenants have turns in steps that wait for room: the next tenant is found without reading through another's line.
ALTER TABLE _oncehost_steps ADD COLUMN tenant TEXT COLLATE "C";
UPDATE _oncehost_steps SET tenant = (SELECT w.tenant FROM _oncehost_workflows AS w WHERE w.id = workflow);
CREATE INDEX _oncehost_steps_tenants ON _oncehost_steps (tenant, due) WHERE state IN ('ready', 'retry');
