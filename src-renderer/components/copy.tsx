import { ActionIcon, CopyButton, Tooltip } from '@mantine/core';
import { IconCheck, IconCopy } from '@tabler/icons-react';

export function CopyIcon({ value, what }: { readonly value: string; readonly what: string }) {
  return (
    <CopyButton value={value}>
      {({ copied, copy }) => (
        <Tooltip label={copied ? 'Copied' : `Copy ${what}`}>
          <ActionIcon
            variant="subtle"
            color={copied ? 'covey' : 'gray'}
            onClick={copy}
            aria-label={copied ? `Copied ${what}` : `Copy ${what}`}
          >
            {copied ? <IconCheck size={16} /> : <IconCopy size={16} />}
          </ActionIcon>
        </Tooltip>
      )}
    </CopyButton>
  );
}

/** A line to be used elsewhere: an address, a key, a command. */
export function CopyField({ value, what }: { readonly value: string; readonly what: string }) {
  return (
    <div className="copy-field">
      <code tabIndex={0} role="textbox" aria-readonly aria-label={what}>
        {value}
      </code>
      <CopyIcon value={value} what={what} />
    </div>
  );
}

/** Several lines to be used elsewhere. */
export function CodeBlock({ value, what }: { readonly value: string; readonly what: string }) {
  return (
    <div className="code-block">
      <pre tabIndex={0} aria-label={what}>
        <code>{value}</code>
      </pre>
      <div className="code-block-copy">
        <CopyIcon value={value} what={what} />
      </div>
    </div>
  );
}
