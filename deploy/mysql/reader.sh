# shellcheck shell=bash
# Runs once, when the database is made, after the tables: the image's entry point sources it. The job's account may read
# the three master tables and nothing else.
reader_password=$(<"${MYSQL_READER_PASSWORD_FILE:-/run/secrets/mysql_reader}")
reader_password=${reader_password//\\/\\\\}
reader_password=${reader_password//\'/\'\'}
docker_process_sql --database=mysql <<SQL
CREATE USER IF NOT EXISTS 'millrace_reader'@'%' IDENTIFIED BY '$reader_password';
GRANT SELECT ON \`master\`.\`product\` TO 'millrace_reader'@'%';
GRANT SELECT ON \`master\`.\`customer\` TO 'millrace_reader'@'%';
GRANT SELECT ON \`master\`.\`store\` TO 'millrace_reader'@'%';
SQL
unset reader_password
