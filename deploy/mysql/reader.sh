#!/usr/bin/env bash
# Runs once, when the database is made, after the tables. The job's account may read the three master tables and follow the
# binary log (master.feed), and nothing else. The image's entry point runs this file if it is executable and sources it if not: what stands between the
# brackets is its own shell either way, so that nothing of it stays behind and a failure ends the set-up.
(
    set -eu
    password=$(<"${MYSQL_READER_PASSWORD_FILE:-/run/secrets/mysql_reader}")
    password=${password//\\/\\\\}
    password=${password//\'/\'\'}
    MYSQL_PWD=${MYSQL_ROOT_PASSWORD:-} mysql --protocol=socket --user=root --database=mysql <<SQL
CREATE USER IF NOT EXISTS 'millrace_reader'@'%' IDENTIFIED BY '$password';
GRANT SELECT ON \`master\`.\`product\` TO 'millrace_reader'@'%';
GRANT SELECT ON \`master\`.\`customer\` TO 'millrace_reader'@'%';
GRANT SELECT ON \`master\`.\`store\` TO 'millrace_reader'@'%';
GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO 'millrace_reader'@'%';
SQL
)
