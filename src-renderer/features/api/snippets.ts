/** What an app needs to use the covey. */
export interface Endpoint {
  /** With `/v1`, without a slash at its end. */
  readonly baseUrl: string;
  readonly model: string;
  /** Whether calls need a key here. Programs that insist on one get a word where they need none. */
  readonly needsKey: boolean;
}

export interface Snippet {
  readonly id: string;
  readonly title: string;
  /** What to do with it, one sentence. */
  readonly how: string;
  readonly code: string;
}

const prompt = 'Tell me about coveys of partridges.';

/** Quoted for a POSIX shell. */
function shell(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** A string of Python, JavaScript, JSON or YAML: JSON's own form is one in all four. */
function quoted(text: string): string {
  return JSON.stringify(text);
}

/** Quoted for PowerShell. */
function power(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

export function snippetsFor(endpoint: Endpoint): readonly Snippet[] {
  const { baseUrl, model, needsKey } = endpoint;
  const key = needsKey ? 'YOUR_KEY' : 'covey';
  const body = JSON.stringify({ model, messages: [{ role: 'user', content: prompt }] });
  return [
    {
      id: 'curl',
      title: 'curl',
      how: 'In a terminal on Linux or macOS.',
      code: [
        `curl ${baseUrl}/chat/completions \\`,
        `  -H 'Content-Type: application/json' \\`,
        ...(needsKey ? [`  -H "Authorization: Bearer $COVEY_KEY" \\`] : []),
        `  -d ${shell(body)}`,
      ].join('\n'),
    },
    {
      id: 'powershell',
      title: 'PowerShell',
      how: 'In a terminal on Windows.',
      code: [
        `$body = ${power(body)}`,
        `$answer = Invoke-RestMethod ${baseUrl}/chat/completions -Method Post -Body $body \``,
        needsKey
          ? `  -ContentType 'application/json' -Headers @{ Authorization = "Bearer $env:COVEY_KEY" }`
          : `  -ContentType 'application/json'`,
        `$answer.choices[0].message.content`,
      ].join('\n'),
    },
    {
      id: 'python',
      title: 'Python',
      how: 'With the package openai: pip install openai.',
      code: [
        'from openai import OpenAI',
        '',
        `client = OpenAI(base_url=${quoted(baseUrl)}, api_key=${quoted(key)})`,
        'stream = client.chat.completions.create(',
        `    model=${quoted(model)},`,
        `    messages=[{"role": "user", "content": ${quoted(prompt)}}],`,
        '    stream=True,',
        ')',
        'for chunk in stream:',
        '    if chunk.choices:',
        '        print(chunk.choices[0].delta.content or "", end="", flush=True)',
      ].join('\n'),
    },
    {
      id: 'node',
      title: 'Node.js',
      how: 'With the package openai: npm install openai. Save it as a file that ends in .mjs.',
      code: [
        `import OpenAI from 'openai';`,
        '',
        `const client = new OpenAI({ baseURL: ${quoted(baseUrl)}, apiKey: ${quoted(key)} });`,
        'const stream = await client.chat.completions.create({',
        `  model: ${quoted(model)},`,
        `  messages: [{ role: 'user', content: ${quoted(prompt)} }],`,
        '  stream: true,',
        '});',
        `for await (const chunk of stream) process.stdout.write(chunk.choices[0]?.delta?.content ?? '');`,
      ].join('\n'),
    },
    {
      id: 'environment',
      title: 'Variables',
      how: "For programs built on OpenAI's libraries: set these before they start.",
      code: [`export OPENAI_BASE_URL=${shell(baseUrl)}`, `export OPENAI_API_KEY=${shell(key)}`].join('\n'),
    },
    {
      id: 'open-webui',
      title: 'Open WebUI',
      how: 'Start it with these variables, or add the address under Settings, Connections.',
      code: [
        'pip install open-webui',
        `OPENAI_API_BASE_URL=${shell(baseUrl)} OPENAI_API_KEY=${shell(key)} open-webui serve`,
      ].join('\n'),
    },
    {
      id: 'continue',
      title: 'Continue',
      how: 'Coding assistant for VS Code and JetBrains: into ~/.continue/config.yaml.',
      code: [
        'models:',
        `  - name: ${quoted(`${model} on Covey`)}`,
        '    provider: openai',
        `    model: ${quoted(model)}`,
        `    apiBase: ${quoted(baseUrl)}`,
        `    apiKey: ${quoted(key)}`,
        '    roles: [chat, edit, apply]',
      ].join('\n'),
    },
    {
      id: 'aider',
      title: 'aider',
      how: 'Coding in a terminal.',
      code: [
        `OPENAI_API_BASE=${shell(baseUrl)} OPENAI_API_KEY=${shell(key)} \\`,
        `  aider --model ${shell(`openai/${model}`)}`,
      ].join('\n'),
    },
    {
      id: 'langchain',
      title: 'LangChain',
      how: 'With the package langchain-openai.',
      code: [
        'from langchain_openai import ChatOpenAI',
        '',
        'chat = ChatOpenAI(',
        `    base_url=${quoted(baseUrl)},`,
        `    api_key=${quoted(key)},`,
        `    model=${quoted(model)},`,
        ')',
        `print(chat.invoke(${quoted(prompt)}).content)`,
      ].join('\n'),
    },
  ];
}
